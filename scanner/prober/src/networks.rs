//! Sets of networks, and the line format of ZMap's block lists.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// Addresses as sorted ranges that neither touch nor overlap, so that one binary search answers.
#[derive(Clone, Debug, Default)]
pub struct NetworkSet {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl NetworkSet {
    /// The union of `networks`; host bits are ignored.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        let mut set = NetworkSet::default();
        for network in networks {
            match network {
                IpNet::V4(n) => set
                    .v4
                    .push((n.network().to_bits(), n.broadcast().to_bits())),
                IpNet::V6(n) => set
                    .v6
                    .push((n.network().to_bits(), n.broadcast().to_bits())),
            }
        }
        merge(&mut set.v4);
        merge(&mut set.v6);
        set
    }

    /// Whether `ip` lies in one of the networks.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => inside(&self.v4, ip.to_bits()),
            IpAddr::V6(ip) => inside(&self.v6, ip.to_bits()),
        }
    }
}

fn merge<T: Copy + Ord>(ranges: &mut Vec<(T, T)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|later, kept| {
        let overlaps = later.0 <= kept.1;
        if overlaps {
            kept.1 = kept.1.max(later.1);
        }
        overlaps
    });
    ranges.shrink_to_fit();
}

fn inside<T: Copy + Ord>(ranges: &[(T, T)], at: T) -> bool {
    let after = ranges.partition_point(|range| range.0 <= at);
    after > 0 && at <= ranges[after - 1].1
}

/// Reads `10.0.0.0/8`, `192.0.2.1` or the same in IPv6; an address stands for itself alone.
pub fn parse_network(text: &str) -> Option<IpNet> {
    text.parse()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// The IPv4 network that an IPv4-mapped one (`::ffff:192.0.2.0/120`) means.
pub fn unmapped(network: &IpNet) -> Option<IpNet> {
    let IpNet::V6(mapped) = network else {
        return None;
    };
    let address = mapped.network().to_ipv4_mapped()?;
    let length = mapped.prefix_len().checked_sub(96)?;
    Ipv4Net::new(address, length).ok().map(IpNet::V4)
}

/// What a line says: nothing for empty lines; `#` starts a comment anywhere in it.
pub fn content(line: &str) -> Option<&str> {
    let text = line
        .split_once('#')
        .map_or(line, |(before, _)| before)
        .trim();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(networks: &[&str]) -> NetworkSet {
        NetworkSet::new(networks.iter().map(|n| parse_network(n).unwrap()))
    }

    fn has(set: &NetworkSet, ip: &str) -> bool {
        set.contains(ip.parse().unwrap())
    }

    #[test]
    fn ranges_end_where_they_should() {
        let s = set(&["10.0.0.0/8", "192.0.2.7", "2001:db8::/48", "10.2.0.0/16"]);
        for (ip, expected) in [
            ("9.255.255.255", false),
            ("10.0.0.0", true),
            ("10.2.3.4", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("192.0.2.6", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("2001:db8::1", true),
            ("2001:db8:1::", false),
        ] {
            assert_eq!(has(&s, ip), expected, "{ip}");
        }
    }

    #[test]
    fn host_bits_are_ignored_and_everything_can_be_covered() {
        let s = set(&["10.1.2.3/8", "0.0.0.0/0", "::/0"]);
        assert!(has(&s, "255.255.255.255") && has(&s, "ffff::") && has(&s, "0.0.0.0"));
    }

    #[test]
    fn mapped_networks_mean_ipv4() {
        let plain = |text: &str| unmapped(&parse_network(text).unwrap()).map(|n| n.to_string());
        assert_eq!(plain("::ffff:192.0.2.7").as_deref(), Some("192.0.2.7/32"));
        assert_eq!(plain("::ffff:10.0.0.0/104").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(plain("::ffff:0.0.0.0/96").as_deref(), Some("0.0.0.0/0"));
        for other in ["::/0", "::ffff:0:0/95", "2001:db8::/32", "10.0.0.0/8"] {
            assert_eq!(plain(other), None, "{other}");
        }
    }

    #[test]
    fn lines_of_a_list() {
        assert_eq!(content("  10.0.0.0/8  # ours"), Some("10.0.0.0/8"));
        assert_eq!(content("# all comment"), None);
        assert_eq!(content(" \t"), None);
        assert!(parse_network("10.0.0.0/33").is_none() && parse_network("example.org").is_none());
    }
}
