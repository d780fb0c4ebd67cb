//! Sets of networks.

use std::net::IpAddr;

use ipnet::IpNet;

/// Addresses as sorted ranges that do not overlap, so that a single binary search finds an address.
#[derive(Clone, Debug, Default)]
pub struct NetworkSet {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl NetworkSet {
    /// Returns the union of `networks`; host bits are ignored.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self::from_ranges(networks.into_iter().map(|network| range_of(&network)))
    }

    /// Returns the union of ranges from a first to a last address of the same family.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>) -> Self {
        let mut set = NetworkSet::default();
        set.add(ranges);
        set
    }

    /// Adds ranges; see [`Self::from_ranges`].
    pub fn add(&mut self, ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>) {
        for range in ranges {
            match range {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    self.v4.push((first.to_bits(), last.to_bits()))
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    self.v6.push((first.to_bits(), last.to_bits()))
                }
                _ => debug_assert!(false, "{range:?} crosses families"),
            }
        }
        merge(&mut self.v4);
        merge(&mut self.v6);
    }

    /// Returns whether `ip` is in a network of the set.
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

/// Parses `10.0.0.0/8`, `192.0.2.1` or the same in IPv6. An address is a network of one address. `None` for other
/// text, and for a network with bits after the prefix: `127.0.0.1/8` may mean the address or the network.
pub fn parse_network(text: &str) -> Option<IpNet> {
    text.parse()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
        .filter(|network| network.addr() == network.network())
}

/// Returns the first and the last address.
fn range_of(network: &IpNet) -> (IpAddr, IpAddr) {
    (network.network(), network.broadcast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(networks: &[&str]) -> NetworkSet {
        NetworkSet::new(networks.iter().map(|n| n.parse().unwrap()))
    }

    fn has(set: &NetworkSet, ip: &str) -> bool {
        set.contains(ip.parse().unwrap())
    }

    #[test]
    fn ranges_end_where_they_should() {
        let s = set(&["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/48", "10.2.0.0/16"]);
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
    fn ranges_need_not_be_networks() {
        let range = |first: &str, last: &str| (first.parse().unwrap(), last.parse().unwrap());
        let s = NetworkSet::from_ranges([
            range("10.1.2.3", "10.1.2.9"),
            range("10.1.2.8", "10.1.3.0"),
            range("2001:db8::5", "2001:db8::5"),
        ]);
        for (ip, expected) in [
            ("10.1.2.2", false),
            ("10.1.2.3", true),
            ("10.1.3.0", true),
            ("10.1.3.1", false),
            ("2001:db8::5", true),
            ("2001:db8::6", false),
        ] {
            assert_eq!(has(&s, ip), expected, "{ip}");
        }
    }

    #[test]
    fn other_text_is_no_network() {
        for text in ["10.0.0.0/8", "10.0.0.1", "::1", "2001:db8::/32"] {
            assert!(parse_network(text).is_some(), "{text}");
        }
        for text in [
            "10.0.0.0/33",
            "10.0.0.1/8",
            "example.org",
            "010.0.0.1",
            "10.0.0.0/255.0.0.0",
        ] {
            assert!(parse_network(text).is_none(), "{text}");
        }
    }
}
