//! The egress policy: which addresses may be contacted. Block list, opt-out list, special ranges, networks
//! allowed without a contact.
//!
//! [`crate::egress`] asks it about the address of every datagram, right before the datagram leaves.

mod current;
mod list_line;
mod listed;
mod namespace;
mod networks;
mod rtnetlink;
mod special;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::Failure;
use crate::clock::{Clock, Mono};
use current::Current;
pub use current::{Followed, Trust};
use listed::{Kind, Listed};
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
    /// The opt-out list was not confirmed: whoever has opted out since is not known.
    Unconfirmed,
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
            Refusal::Unconfirmed => f.write_str("the opt-out list is not confirmed"),
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
    listed: Listed,
    /// The files that `listed` comes from; `None`: it stays as it is.
    current: Option<Current>,
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
        let mut listed = Listed::default();
        for (kind, lists) in [(Kind::Block, blocklists), (Kind::OptOut, optouts)] {
            for (name, text) in lists {
                listed.add(kind, name, text)?;
            }
        }
        Policy::of(allow, listed, None, namespace)
    }

    /// The same of files, which are read again when they change ([`Self::look`]), and of the machine's opt-out
    /// list, if the environment names one.
    pub fn read(
        allow: &[String],
        blocklists: &[PathBuf],
        optouts: &[PathBuf],
        namespace: Namespace,
    ) -> Result<Self, Failure> {
        let mut listed = Listed::default();
        let machine = match std::env::var(current::VARIABLE) {
            Ok(machine) => Some(machine),
            Err(std::env::VarError::NotPresent) => None,
            // A list that nobody reads must not look like none.
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(Failure::Usage(format!(
                    "{} is no text in UTF-8: name the list by another path; nothing was sent",
                    current::VARIABLE
                )));
            }
        };
        let current = Current::read(blocklists, optouts, machine.as_deref(), &mut listed)?;
        Policy::of(allow, listed, Some(current), namespace)
    }

    fn of(
        allow: &[String],
        listed: Listed,
        current: Option<Current>,
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
            listed,
            current,
            servers: Vec::new(),
        })
    }

    /// Reads lists again that have changed, a few times a second at most; returns what may be sent now.
    #[inline]
    pub fn look(&mut self, now: Mono) -> Trust {
        match &mut self.current {
            Some(current) => current.look(now, &mut self.listed),
            None => Trust::All,
        }
    }

    /// Returns what may be sent, as of the last look.
    #[inline]
    pub fn trust(&self) -> Trust {
        self.current.as_ref().map_or(Trust::All, Current::trust)
    }

    /// Returns when something more may be sent than now, at the earliest, if `needed` is not permitted.
    #[inline]
    pub fn wait_for(&self, needed: Trust) -> Mono {
        match &self.current {
            Some(current) if current.trust() < needed => current.next_look(),
            _ => 0,
        }
    }

    /// Looks again, and waits until a list that is being changed is whole; for programs that look seldom.
    pub fn look_well(&mut self, clock: Clock) -> Trust {
        let mut trust = self.look(clock.now());
        while let Some(current) = self.current.as_ref().filter(|one| one.is_changing()) {
            let wait = current.next_look().saturating_sub(clock.now());
            std::thread::sleep(std::time::Duration::from_nanos(wait));
            trust = self.look(clock.now());
        }
        trust
    }

    /// Returns what the summary says of the lists.
    pub fn followed(&self) -> Followed {
        self.current
            .as_ref()
            .map(Current::report)
            .unwrap_or_default()
    }

    /// Names the servers that the settings give, such as resolvers. Special ranges do not forbid them: a
    /// provider's or a cloud's resolver often lies in one. The lists do, and so does the lab's mark.
    pub fn with_servers(mut self, servers: &[IpAddr]) -> Policy {
        self.servers = servers.to_vec();
        self
    }

    /// Returns why no packet may go to `ip` for `domain` (empty: none), if so. Lists come before permissions.
    pub fn check(&self, ip: IpAddr, domain: &str) -> Result<(), Refusal> {
        if self.listed.blocked.contains(ip) {
            return Err(Refusal::BlockList);
        }
        if self.listed.opted_out.contains(ip) {
            return Err(Refusal::OptOutNetwork);
        }
        if self.listed.covers(domain) {
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
