//! The egress policy: which addresses may be contacted. It consists of block lists, opt-out lists, special
//! ranges, and networks allowed without a contact.
//!
//! [`crate::egress`] checks the address of every datagram right before the datagram leaves.

mod current;
pub mod list_line;
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

use crate::limits::policy::networks::{NetworkSet, parse_network};
use crate::limits::policy::special::{is_allowable, platform_set, special_name, special_networks};
use namespace::{lab_ranges, reached};

/// Why no packet may be sent.
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
    /// The opt-out list was not confirmed, so that recent opt-outs may be missing.
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
    /// Special ranges and this machine's own addresses. They are contacted only where allowed.
    special: NetworkSet,
    allowed: NetworkSet,
    /// Special ranges that cannot be allowed.
    platform: NetworkSet,
    /// Ranges that exist only in the lab; empty in the lab.
    lab: NetworkSet,
    namespace: Namespace,
    listed: Listed,
    /// The files of `listed`; `None`: the entries never change.
    current: Option<Current>,
    /// Servers named in the settings.
    servers: Vec<IpAddr>,
}

impl Policy {
    /// Builds a policy from texts. `allow`: CIDR texts of `--allow-net`; `blocklists`, `optouts`: (file name
    /// for messages, text) of each list; `namespace`: the network namespace that packets leave from. A line
    /// that cannot be read is an error: an incomplete list would not protect everybody.
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

    /// Builds a policy from files, which are read again when they change ([`Self::look`]). The machine's
    /// opt-out list is added if the environment names one.
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
            // A list that nobody reads must not look like no list.
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(Failure::Usage(format!(
                    "{} is not UTF-8 text: give the list another path; nothing was sent",
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
                    "--allow-net {text} is not a network: write it like 127.0.0.0/8"
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

    /// Reads changed lists again, a few times a second at most. Returns the trust in the lists.
    #[inline]
    pub fn look(&mut self, now: Mono) -> Trust {
        match &mut self.current {
            Some(current) => current.look(now, &mut self.listed),
            None => Trust::All,
        }
    }

    /// Returns the trust in the lists, as of the last look.
    #[inline]
    pub fn trust(&self) -> Trust {
        self.current.as_ref().map_or(Trust::All, Current::trust)
    }

    /// Returns the earliest time at which the trust may rise, or 0 if it is at least `needed` now.
    #[inline]
    pub fn wait_for(&self, needed: Trust) -> Mono {
        match &self.current {
            Some(current) if current.trust() < needed => current.next_look(),
            _ => 0,
        }
    }

    /// Looks again, and waits until a list that is changing is complete. For programs that look seldom.
    pub fn look_until_complete(&mut self, clock: Clock) -> Trust {
        let mut trust = self.look(clock.now());
        while let Some(current) = self
            .current
            .as_ref()
            .filter(|current| current.is_changing())
        {
            let wait = current.next_look().saturating_sub(clock.now());
            std::thread::sleep(std::time::Duration::from_nanos(wait));
            trust = self.look(clock.now());
        }
        trust
    }

    /// Returns the summary's fields about the lists.
    pub fn followed(&self) -> Followed {
        self.current
            .as_ref()
            .map(Current::report)
            .unwrap_or_default()
    }

    /// Adds servers from the settings, such as resolvers. Special ranges do not forbid them, because a
    /// provider's or a cloud's resolver often has an address in such a range. The lists and the lab's mark
    /// still apply.
    pub fn with_servers(mut self, servers: &[IpAddr]) -> Policy {
        self.servers = servers.to_vec();
        self
    }

    /// Returns why no packet may go to `ip` for `domain` (empty: no domain), if so. Lists take precedence
    /// over permissions.
    pub fn check(&self, ip: IpAddr, domain: &str) -> Result<(), Refusal> {
        // Packets to an IPv4-mapped address would go to the IPv4 address.
        let plain = ip.to_canonical();
        let is_in = |set: &NetworkSet| set.contains(ip) || (plain != ip && set.contains(plain));
        if is_in(&self.listed.blocked) {
            return Err(Refusal::BlockList);
        }
        if is_in(&self.listed.opted_out) {
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
        let is_of_lab = reached(ip).any(|address| self.lab.contains(address));
        if is_of_lab && !self.namespace.loops_back(ip.to_canonical()) {
            return Err(Refusal::NotTheLab);
        }
        Ok(())
    }

    /// Returns whether probing `ip` requires a contact. Every address outside the allowed networks does.
    pub fn needs_contact(&self, ip: IpAddr) -> bool {
        !self.allowed.contains(ip)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// A policy, and addresses to check. `firstflight/egress/permitted.py` passes the same cases.
    #[derive(Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Case {
        about: String,
        allow: Vec<String>,
        block: String,
        optout: String,
        own: Vec<String>,
        servers: Vec<IpAddr>,
        /// Parts of the message if the policy is refused.
        refused: Option<Vec<String>>,
        /// Address, name, and why the policy forbids them; null: it does not.
        checks: Vec<(IpAddr, String, Option<String>)>,
    }

    impl Case {
        fn policy(&self) -> Result<Policy, Failure> {
            let list = |name: &str, text: &str| [(name.to_owned(), text.to_owned())];
            let policy = Policy::new(
                &self.allow,
                &list("block", &self.block),
                &list("optout", &self.optout),
                Namespace::here(&[])?.with_own(&self.own)?,
            )?;
            Ok(policy.with_servers(&self.servers))
        }
    }

    #[test]
    fn policies_decide_as_the_table_says() {
        let table = include_str!("../../../../../tests/rules/policies.json");
        let cases: Vec<Case> = serde_json::from_str(table).unwrap();
        assert!(cases.iter().map(|case| case.checks.len()).sum::<usize>() > 150);
        for case in cases {
            match (case.policy(), &case.refused) {
                (Ok(policy), None) => {
                    for (ip, name, why) in &case.checks {
                        let found = policy.check(*ip, name).err().map(|why| why.to_string());
                        assert_eq!(found, *why, "{}: {ip} {name}", case.about);
                    }
                }
                (Err(failure), Some(parts)) => {
                    let message = failure.to_string();
                    let has_all = parts.iter().all(|part| message.contains(part));
                    assert!(has_all, "{}: {message}", case.about);
                }
                (found, _) => panic!("{}: {:?}", case.about, found.err()),
            }
        }
    }

    #[test]
    fn only_allowed_networks_need_no_contact() {
        let allow = ["127.0.0.0/8".to_owned()];
        let policy = Policy::new(&allow, &[], &[], Namespace::here(&[]).unwrap()).unwrap();
        for (ip, expected) in [("8.8.8.8", true), ("10.0.0.1", true), ("127.0.0.1", false)] {
            assert_eq!(policy.needs_contact(ip.parse().unwrap()), expected, "{ip}");
        }
    }

    #[test]
    fn a_refused_policy_has_the_status_of_its_fault() {
        for (allow, block, status) in [("lo", "", 2), ("0.0.0.0/0", "", 2), ("::1", "ten\u{fc}", 3)]
        {
            let case = Case {
                allow: vec![allow.to_owned()],
                block: block.to_owned(),
                ..Case::default()
            };
            assert_eq!(
                case.policy().unwrap_err().exit_status(),
                status,
                "{allow} {block}"
            );
        }
    }
}
