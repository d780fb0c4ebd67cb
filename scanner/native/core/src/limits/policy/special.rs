//! Ranges that are not probed unless allowed. Other parts of the project read the same file,
//! firstflight/egress/special_networks.csv.

use std::net::IpAddr;
use std::sync::LazyLock;

use ipnet::IpNet;

use crate::limits::policy::networks::NetworkSet;

const FILE: &str = include_str!("../../../../../../firstflight/egress/special_networks.csv");

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Not probed unless allowed.
    Special,
    /// Cannot be allowed.
    Platform,
    /// `--allow-net` may name it.
    Allowable,
}

struct Entry {
    network: IpNet,
    kind: Kind,
    name: &'static str,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let lines = FILE.lines().filter(|line| !line.starts_with('#'));
    lines.map(entry).collect()
});

fn entry(line: &'static str) -> Entry {
    let mut fields = line.splitn(3, ',');
    let mut field = || {
        fields
            .next()
            .expect("the file has three fields a line; a test reads them all")
    };
    Entry {
        network: parsed(field()),
        kind: match field() {
            "special" => Kind::Special,
            "platform" => Kind::Platform,
            "allowable" => Kind::Allowable,
            kind => unreachable!("{kind} is no kind; a test reads all lines"),
        },
        name: field(),
    }
}

fn parsed(text: &str) -> IpNet {
    text.parse()
        .expect("the file has networks; a test reads them all")
}

fn blocked() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().filter(|entry| entry.kind != Kind::Allowable)
}

/// Returns all special ranges.
pub fn special_networks() -> impl Iterator<Item = IpNet> {
    blocked().map(|entry| entry.network)
}

/// Returns the ranges that cannot be allowed.
pub fn platform_set() -> NetworkSet {
    let platform = ENTRIES.iter().filter(|entry| entry.kind == Kind::Platform);
    NetworkSet::new(platform.map(|entry| entry.network))
}

/// Returns the registry's name for the range that contains `ip`, for messages.
pub fn special_name(ip: IpAddr) -> Option<&'static str> {
    let around = blocked().find(|entry| entry.network.contains(&ip));
    around.map(|entry| entry.name)
}

/// Returns whether `--allow-net` may name this network.
pub fn is_allowable(network: &IpNet) -> bool {
    let allowable = ENTRIES.iter().filter(|entry| entry.kind == Kind::Allowable);
    allowable
        .into_iter()
        .any(|outer| outer.network.contains(network))
}

/// Returns whether `ip` cannot lead to other people's machines: it is loopback, private or the lab's.
pub fn is_ours(ip: IpAddr) -> bool {
    is_allowable(&IpNet::from(ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_range_is_in_the_set() {
        let set = NetworkSet::new(special_networks());
        assert_eq!((ENTRIES.len(), blocked().count()), (54, 46));
        for entry in blocked() {
            let ip = entry.network.network();
            assert!(set.contains(ip), "{}", entry.network);
            assert!(special_name(ip).is_some(), "{}", entry.name);
        }
        for ip in [
            "8.8.8.8",
            "1.1.1.1",
            "2606:4700::1",
            "198.20.0.1",
            "172.32.0.1",
            "100.128.0.1",
            "2a00::1",
            "2000::1",
            "3ffe:ffff::1",
            "168.63.129.17",
        ] {
            assert!(!set.contains(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn unassigned_addresses_are_special() {
        let set = NetworkSet::new(special_networks());
        for (ip, name) in [
            ("1::", "no global unicast"),
            ("::7f00:1", "no global unicast"),
            ("1fff::1", "no global unicast"),
            ("4000::1", "no global unicast"),
            ("7fff::1", "no global unicast"),
            ("8000::1", "no global unicast"),
            ("fec0::1", "no global unicast"),
            ("::1", "loopback"),
            ("::ffff:8.8.8.8", "IPv4-mapped"),
            ("fd00:ec2::254", "Amazon's platform"),
            ("169.254.169.254", "cloud metadata"),
            ("169.254.170.2", "link local"),
        ] {
            let ip = ip.parse().unwrap();
            assert!(set.contains(ip), "{ip}");
            assert_eq!(special_name(ip), Some(name), "{ip}");
        }
    }

    #[test]
    fn ours_are_loopback_private_and_the_lab() {
        for (ip, expected) in [
            ("127.0.0.53", true),
            ("192.168.1.1", true),
            ("198.18.0.53", true),
            ("fd00::53", true),
            ("9.9.9.9", false),
            ("169.254.169.253", false),
            ("2620:fe::fe", false),
        ] {
            assert_eq!(is_ours(ip.parse().unwrap()), expected, "{ip}");
        }
    }

    #[test]
    fn only_networks_without_strangers_may_be_allowed() {
        for (text, expected) in [
            ("127.0.0.0/8", true),
            ("127.0.0.1/32", true),
            ("198.18.16.0/20", true),
            ("198.18.0.0/14", false),
            ("0.0.0.0/0", false),
            ("8.8.8.8/32", false),
            ("169.254.0.0/16", false),
            ("fd00::/8", true),
            ("::/0", false),
            ("::ffff:0:0/96", false),
            ("2001:db8:16::/48", true),
        ] {
            assert_eq!(is_allowable(&parsed(text)), expected, "{text}");
        }
    }
}
