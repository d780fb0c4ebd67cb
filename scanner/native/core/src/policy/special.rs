//! Ranges that are not probed unless allowed: the IANA special-purpose registries (RFC 6890 and its
//! updates, also the entries marked globally reachable, since none of them is a web server's), multicast,
//! IPv6 outside 2000::/3 (the only block that IANA has assigned: RFC 4291 2.4 and its registry), and
//! services of clouds.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::policy::networks::NetworkSet;

/// The registries for IPv4 and IPv6 in the state of 2025, and multicast.
const SPECIAL: &[(&str, &str)] = &[
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private use"),
    ("100.64.0.0/10", "shared address space"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link local"),
    ("172.16.0.0/12", "private use"),
    ("192.0.0.0/24", "IETF protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112"),
    ("192.52.193.0/24", "AMT"),
    ("192.88.99.0/24", "6to4 relay anycast"),
    ("192.168.0.0/16", "private use"),
    ("192.175.48.0/24", "AS112"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("64:ff9b::/96", "IPv4/IPv6 translation"),
    ("64:ff9b:1::/48", "IPv4/IPv6 translation"),
    ("100::/64", "discard only"),
    ("100:0:0:1::/64", "dummy prefix"),
    ("2001::/23", "IETF protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link local"),
    ("ff00::/8", "multicast"),
    // After the entries above, whose names are more exact.
    ("::/3", "no global unicast"),
    ("4000::/2", "no global unicast"),
    ("8000::/1", "no global unicast"),
];

/// Services that a cloud offers to its machines: metadata with credentials, name servers, health checks.
/// They cannot be allowed. Those in 169.254.0.0/16 lie outside every network that `--allow-net` accepts.
const PLATFORM: &[(&str, &str)] = &[
    // learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
    ("168.63.129.16/32", "Azure's platform"),
    // Amazon EC2 user guide: instance metadata (::254), name server (::253), time (::123), EKS Pod Identity
    // (::23).
    ("fd00:ec2::/64", "Amazon's platform"),
    // cloud.google.com/compute/docs/metadata: the metadata server of IPv6-only machines.
    ("fd20:ce::/64", "Google's platform"),
    // Oracle Cloud Infrastructure documentation: instance metadata over IPv6.
    ("fd00:c1::a9fe:a9fe/128", "Oracle's platform"),
    // Scaleway's documentation: instance metadata over IPv6.
    ("fd00:42::42/128", "Scaleway's platform"),
    // Linode's metadata service guide.
    ("fd00:a9fe:a9fe::1/128", "Linode's platform"),
    // Alibaba Cloud ECS user guide: metadata, and in its neighbourhood name servers and time.
    ("100.100.100.200/32", "Alibaba's platform"),
    // Oracle Cloud Classic: instance metadata.
    ("192.0.0.192/32", "Oracle's platform"),
    ("169.254.169.254/32", "cloud metadata"),
];

/// The only ranges in which `--allow-net` is accepted: they lead to no machines of others.
const ALLOWABLE: &[&str] = &[
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
    "198.18.0.0/15",
    "2001:db8::/32",
];

fn parsed(text: &str) -> IpNet {
    text.parse()
        .expect("constants above are networks; a test reads them all")
}

/// Returns all special ranges.
pub fn special_networks() -> impl Iterator<Item = IpNet> {
    PLATFORM
        .iter()
        .chain(SPECIAL)
        .map(|(network, _)| parsed(network))
}

/// Returns the ranges that cannot be allowed.
pub fn platform_set() -> NetworkSet {
    NetworkSet::new(PLATFORM.iter().map(|(network, _)| parsed(network)))
}

/// Returns the registry's name for the range around `ip`; for messages.
pub fn special_name(ip: IpAddr) -> Option<&'static str> {
    PLATFORM
        .iter()
        .chain(SPECIAL)
        .find(|(network, _)| parsed(network).contains(&ip))
        .map(|(_, name)| *name)
}

/// Returns whether `--allow-net` may name this network.
pub fn is_allowable(network: &IpNet) -> bool {
    ALLOWABLE
        .iter()
        .any(|outer| parsed(outer).contains(network))
}

/// Returns whether `ip` leads to no machine of others: loopback, private or the lab's.
pub fn is_ours(ip: IpAddr) -> bool {
    is_allowable(&IpNet::from(ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_range_is_in_the_set() {
        let set = NetworkSet::new(special_networks());
        for (network, name) in SPECIAL.iter().chain(PLATFORM) {
            let ip = parsed(network).network();
            assert!(set.contains(ip), "{network}");
            assert!(special_name(ip).is_some(), "{name}");
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
