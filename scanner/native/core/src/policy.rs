//! The egress policy: which addresses may be contacted. Block list, opt-out list, special ranges, networks
//! allowed without a contact.
//!
//! [`crate::egress`] asks it about the address of every datagram, right before the datagram leaves.

mod list_line;
mod namespace;
mod networks;
mod rtnetlink;
mod special;

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use crate::Failure;
use crate::policy::list_line::{Entry, content, entry};
pub use namespace::Namespace;
pub use special::is_ours;

use crate::policy::networks::{NetworkSet, parse_network};
use crate::policy::special::{is_allowable, platform_set, special_name, special_networks};
use namespace::lab_ranges;

/// Why nothing may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    BlockList,
    OptOutName,
    OptOutNetwork,
    /// The registry's name for the range.
    Special(&'static str),
    /// An address of this machine.
    Own,
    /// An address of the lab, and this is not the lab.
    NotTheLab,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::BlockList => f.write_str("address on the block list"),
            Refusal::OptOutName => f.write_str("name on the opt-out list"),
            Refusal::OptOutNetwork => f.write_str("address on the opt-out list"),
            Refusal::Special(name) => write!(f, "special-purpose address ({name})"),
            Refusal::Own => f.write_str("an address of this machine"),
            Refusal::NotTheLab => f.write_str("an address of the lab, and this is not the lab"),
        }
    }
}

/// The lists in force.
#[derive(Debug)]
pub struct Policy {
    /// Special ranges and this machine's own addresses: contacted only where allowed.
    special: NetworkSet,
    allowed: NetworkSet,
    /// Special ranges that cannot be allowed.
    platform: NetworkSet,
    /// Ranges that exist only in the lab; empty in the lab.
    lab: NetworkSet,
    namespace: Namespace,
    blocked: NetworkSet,
    opted_out: NetworkSet,
    opted_out_names: HashSet<Box<str>>,
    /// Servers that the settings name.
    servers: Vec<IpAddr>,
}

impl Policy {
    /// `allow`: CIDR texts of `--allow-net`; `blocklist`, `optout`: (file name for messages, text) of each
    /// list. A line that cannot be read is an error: an incomplete list would not protect everybody.
    /// `namespace`: where packets leave from.
    pub fn new(
        allow: &[String],
        blocklists: &[(String, String)],
        optouts: &[(String, String)],
        namespace: Namespace,
    ) -> Result<Self, Failure> {
        let mut allowed = Vec::new();
        for text in allow {
            let network = parse_network(text).ok_or_else(|| {
                Failure::Usage(format!(
                    "--allow-net {text} is no network: write it like 127.0.0.0/8"
                ))
            })?;
            if !is_allowable(&network) {
                return Err(Failure::Usage(format!(
                    "--allow-net {text} is refused: it must lie inside loopback, RFC 1918, fc00::/7, \
                     198.18.0.0/15 or 2001:db8::/32; for other networks give --contact"
                )));
            }
            allowed.push(network);
        }
        let (mut blocked, mut opted_out, mut opted_out_names) =
            (Vec::new(), Vec::new(), HashSet::new());
        for line in lines(blocklists) {
            match line? {
                (_, Entry::Addresses(first, last)) => blocked.push((first, last)),
                (at, Entry::Name(name)) => {
                    return Err(wrong(&at, &name, "is no address, network or range"));
                }
            }
        }
        for line in lines(optouts) {
            match line?.1 {
                Entry::Addresses(first, last) => opted_out.push((first, last)),
                Entry::Name(name) => _ = opted_out_names.insert(name.into_boxed_str()),
            }
        }
        let lab = if namespace.is_lab() {
            NetworkSet::default()
        } else {
            NetworkSet::new(lab_ranges())
        };
        let own = namespace.own().iter().copied();
        Ok(Policy {
            special: NetworkSet::new(special_networks().chain(own)),
            allowed: NetworkSet::new(allowed),
            platform: platform_set(),
            lab,
            namespace,
            blocked: NetworkSet::from_ranges(blocked.into_iter().flat_map(with_unmapped)),
            opted_out: NetworkSet::from_ranges(opted_out.into_iter().flat_map(with_unmapped)),
            opted_out_names,
            servers: Vec::new(),
        })
    }

    /// Names the servers that the settings give, such as resolvers. Special ranges do not forbid them: a
    /// provider's or a cloud's resolver often lies in one. The lists do, and so does the lab's mark.
    pub fn with_servers(mut self, servers: &[IpAddr]) -> Policy {
        self.servers = servers.to_vec();
        self
    }

    /// Returns why no packet may go to `ip` for `domain` (empty: none), if so. Lists come before permissions.
    pub fn check(&self, ip: IpAddr, domain: &str) -> Result<(), Refusal> {
        if self.blocked.contains(ip) {
            return Err(Refusal::BlockList);
        }
        if self.opted_out.contains(ip) {
            return Err(Refusal::OptOutNetwork);
        }
        if !self.opted_out_names.is_empty() && self.covers(domain) {
            return Err(Refusal::OptOutName);
        }
        if !self.special.contains(ip) {
            return Ok(());
        }
        let may = self.allowed.contains(ip) && !self.platform.contains(ip);
        if !may && !self.servers.contains(&ip) {
            return Err(special_name(ip).map_or(Refusal::Own, Refusal::Special));
        }
        if self.lab.contains(ip) && !self.namespace.loops_back(ip) {
            return Err(Refusal::NotTheLab);
        }
        Ok(())
    }

    /// Returns whether probing `ip` needs a contact, as every address outside the allowed networks does.
    pub fn needs_contact(&self, ip: IpAddr) -> bool {
        !self.allowed.contains(ip)
    }

    /// Returns whether the opt-out list names `domain` or a domain above it.
    fn covers(&self, domain: &str) -> bool {
        let lower = domain.trim_end_matches('.').to_ascii_lowercase();
        let mut rest = lower.as_str();
        loop {
            if self.opted_out_names.contains(rest) {
                return true;
            }
            match rest.split_once('.') {
                Some((_, above)) => rest = above,
                None => return false,
            }
        }
    }
}

/// The entries of the files, each with its location: (`FILE, line N`, entry).
fn lines(
    files: &[(String, String)],
) -> impl Iterator<Item = Result<(String, Entry), Failure>> + '_ {
    files.iter().flat_map(|(name, text)| {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        text.split('\n').zip(1..).filter_map(move |(line, number)| {
            let at = || format!("{name}, line {number}");
            match content(line).and_then(|text| text.map(entry).transpose()) {
                Ok(None) => None,
                Ok(Some(entry)) => Some(Ok((at(), entry))),
                Err(why) => Some(Err(wrong(&at(), line.trim(), why))),
            }
        })
    })
}

fn wrong(at: &str, text: &str, why: &str) -> Failure {
    Failure::Input(format!(
        "{at}: {text:?} {why}; correct it, nothing was sent"
    ))
}

/// An IPv4-mapped range stands for the IPv4 addresses as well.
fn with_unmapped(range: (IpAddr, IpAddr)) -> impl Iterator<Item = (IpAddr, IpAddr)> {
    let mapped = |ip| match ip {
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map(IpAddr::V4),
        IpAddr::V4(_) => None,
    };
    mapped(range.0)
        .zip(mapped(range.1))
        .into_iter()
        .chain([range])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], block: &str, optout: &str) -> Result<Policy, Failure> {
        let allow: Vec<String> = allow.iter().map(|a| (*a).to_owned()).collect();
        Policy::new(
            &allow,
            &[("block".into(), block.into())],
            &[("optout".into(), optout.into())],
            Namespace::here(&[]).unwrap(),
        )
    }

    fn check(policy: &Policy, ip: &str, domain: &str) -> Result<(), Refusal> {
        policy.check(ip.parse().unwrap(), domain)
    }

    #[test]
    fn lists_win_over_permission() {
        let g = policy(
            &["127.0.0.0/8"],
            "127.0.0.9 # his\n",
            "example.org\n127.0.1.0/24\n",
        )
        .unwrap();
        assert_eq!(check(&g, "127.0.0.1", "a.test"), Ok(()));
        assert_eq!(check(&g, "127.0.0.9", ""), Err(Refusal::BlockList));
        assert_eq!(check(&g, "127.0.1.77", ""), Err(Refusal::OptOutNetwork));
        assert_eq!(
            check(&g, "127.0.0.1", "www.Example.ORG."),
            Err(Refusal::OptOutName)
        );
        assert_eq!(check(&g, "127.0.0.1", "notexample.org"), Ok(()));
        assert_eq!(
            check(&g, "10.0.0.1", ""),
            Err(Refusal::Special("private use"))
        );
        assert_eq!(
            check(&g, "::ffff:127.0.0.1", ""),
            Err(Refusal::Special("IPv4-mapped"))
        );
        assert_eq!(check(&g, "8.8.8.8", ""), Ok(()));
        assert!(
            g.needs_contact("8.8.8.8".parse().unwrap())
                && !g.needs_contact("127.0.0.1".parse().unwrap())
        );
    }

    #[test]
    fn named_servers_may_lie_in_special_ranges_but_not_on_lists() {
        let servers = ["169.254.169.253", "168.63.129.16", "10.0.0.53", "10.0.0.9"];
        let servers = servers.map(|ip| ip.parse().unwrap());
        let g = policy(&[], "10.0.0.9", "").unwrap().with_servers(&servers);
        for (ip, expected) in [
            ("169.254.169.253", Ok(())),
            ("168.63.129.16", Ok(())),
            ("10.0.0.53", Ok(())),
            ("10.0.0.9", Err(Refusal::BlockList)),
            ("10.0.0.54", Err(Refusal::Special("private use"))),
        ] {
            assert_eq!(check(&g, ip, ""), expected, "{ip}");
        }
    }

    #[test]
    fn lists_may_have_mapped_networks_and_a_byte_order_mark() {
        let g = policy(
            &["127.0.0.0/8"],
            "\u{feff}# ours\r\n::ffff:127.0.0.6\r\n",
            "\u{feff}example.org\n::ffff:127.0.2.0/120\n",
        )
        .unwrap();
        assert_eq!(check(&g, "127.0.0.6", ""), Err(Refusal::BlockList));
        assert_eq!(check(&g, "127.0.2.9", ""), Err(Refusal::OptOutNetwork));
        assert_eq!(check(&g, "127.0.3.9", ""), Ok(()));
        assert_eq!(
            check(&g, "127.0.0.1", "example.org"),
            Err(Refusal::OptOutName)
        );
    }

    #[test]
    fn a_broken_line_stops_everything() {
        assert!(matches!(policy(&[], "10.0.0.0/8\nten\n", ""),
                Err(Failure::Input(m)) if m.contains("block, line 2")));
        assert!(
            matches!(policy(&[], "", "\n10.1.2\n"), Err(Failure::Input(m)) if m.contains("optout, line 2"))
        );
        assert!(matches!(
            policy(&["0.0.0.0/0"], "", ""),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(policy(&["lo"], "", ""), Err(Failure::Usage(_))));
    }
}
