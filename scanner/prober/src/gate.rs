//! Who may be contacted: block list, opt-out list, special ranges, networks allowed without a contact.
//!
//! The gate is asked by the code that hands datagrams to the kernel (`door.rs`), about the very address it
//! hands over; nothing else leads to a packet.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use crate::error::Failure;
use crate::host_name::is_host_name;
use crate::networks::{NetworkSet, content, parse_network, unmapped};
use crate::special::{is_allowable, special_name, special_set};

/// Why nothing may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    BlockList,
    OptOutName,
    OptOutNetwork,
    /// The registry's word for the range.
    Special(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::BlockList => f.write_str("address on the block list"),
            Refusal::OptOutName => f.write_str("name on the opt-out list"),
            Refusal::OptOutNetwork => f.write_str("address on the opt-out list"),
            Refusal::Special(name) => write!(f, "special-purpose address ({name})"),
        }
    }
}

/// The lists in force.
#[derive(Debug)]
pub struct Gate {
    special: NetworkSet,
    allowed: NetworkSet,
    blocked: NetworkSet,
    opted_out: NetworkSet,
    opted_out_names: HashSet<Box<str>>,
}

impl Gate {
    /// `allow`: CIDR texts of `--allow-net`; `blocklist`, `optout`: (file name for messages, text) of each list.
    /// A line that cannot be read is an error: half a list protects nobody.
    pub fn new(
        allow: &[String],
        blocklists: &[(String, String)],
        optouts: &[(String, String)],
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
                    "--allow-net {text} is refused: it must lie inside loopback, RFC 1918, fc00::/7, 198.18.0.0/15 or \
                     2001:db8::/32; for other networks give --contact"
                )));
            }
            allowed.push(network);
        }
        let mut blocked = Vec::new();
        for (name, number, text) in lines(blocklists) {
            let network = parse_network(text).ok_or_else(|| {
                Failure::Input(format!(
                    "{name}, line {number}: {text:?} is no address or network; correct it, nothing was sent"
                ))
            })?;
            // Whoever lists a mapped network means its hosts, however they are written.
            blocked.extend(unmapped(&network));
            blocked.push(network);
        }
        let (mut opted_out, mut opted_out_names) = (Vec::new(), HashSet::new());
        for (name, number, text) in lines(optouts) {
            let domain = text
                .trim_start_matches("*.")
                .trim_matches('.')
                .to_ascii_lowercase();
            if let Some(network) = parse_network(text) {
                opted_out.extend(unmapped(&network));
                opted_out.push(network);
            } else if is_host_name(&domain) && !text.contains('/') {
                opted_out_names.insert(domain.into_boxed_str());
            } else {
                return Err(Failure::Input(format!(
                    "{name}, line {number}: {text:?} is no name, address or network; correct it, nothing was sent"
                )));
            }
        }
        Ok(Gate {
            special: special_set(),
            allowed: NetworkSet::new(allowed),
            blocked: NetworkSet::new(blocked),
            opted_out: NetworkSet::new(opted_out),
            opted_out_names,
        })
    }

    /// Whether a packet may go to `ip` for `domain` (empty: none). Lists come before permissions.
    pub fn judge(&self, ip: IpAddr, domain: &str) -> Result<(), Refusal> {
        if self.blocked.contains(ip) {
            return Err(Refusal::BlockList);
        }
        if self.opted_out.contains(ip) {
            return Err(Refusal::OptOutNetwork);
        }
        if !self.opted_out_names.is_empty() && self.covers(domain) {
            return Err(Refusal::OptOutName);
        }
        if self.special.contains(ip) && !self.allowed.contains(ip) {
            return Err(Refusal::Special(special_name(ip).unwrap_or("registry")));
        }
        Ok(())
    }

    /// Whether probing `ip` needs a contact: every address outside the allowed networks does.
    pub fn needs_contact(&self, ip: IpAddr) -> bool {
        !self.allowed.contains(ip)
    }

    /// Whether the opt-out list names `domain` or a domain above it.
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

/// (file, line number from 1, content) of all lines that say something.
fn lines(files: &[(String, String)]) -> impl Iterator<Item = (&str, usize, &str)> {
    files.iter().flat_map(|(name, text)| {
        text.trim_start_matches('\u{feff}')
            .lines()
            .enumerate()
            .filter_map(move |(i, line)| Some((name.as_str(), i + 1, content(line)?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(allow: &[&str], block: &str, optout: &str) -> Result<Gate, Failure> {
        let allow: Vec<String> = allow.iter().map(|a| (*a).to_owned()).collect();
        Gate::new(
            &allow,
            &[("block".into(), block.into())],
            &[("optout".into(), optout.into())],
        )
    }

    fn judge(gate: &Gate, ip: &str, domain: &str) -> Result<(), Refusal> {
        gate.judge(ip.parse().unwrap(), domain)
    }

    #[test]
    fn lists_win_over_permission() {
        let g = gate(
            &["127.0.0.0/8"],
            "127.0.0.9 # his\n",
            "example.org\n127.0.1.0/24\n",
        )
        .unwrap();
        assert_eq!(judge(&g, "127.0.0.1", "a.test"), Ok(()));
        assert_eq!(judge(&g, "127.0.0.9", ""), Err(Refusal::BlockList));
        assert_eq!(judge(&g, "127.0.1.77", ""), Err(Refusal::OptOutNetwork));
        assert_eq!(
            judge(&g, "127.0.0.1", "www.Example.ORG."),
            Err(Refusal::OptOutName)
        );
        assert_eq!(judge(&g, "127.0.0.1", "notexample.org"), Ok(()));
        assert_eq!(
            judge(&g, "10.0.0.1", ""),
            Err(Refusal::Special("private use"))
        );
        assert_eq!(
            judge(&g, "::ffff:127.0.0.1", ""),
            Err(Refusal::Special("IPv4-mapped"))
        );
        assert_eq!(judge(&g, "8.8.8.8", ""), Ok(()));
        assert!(
            g.needs_contact("8.8.8.8".parse().unwrap())
                && !g.needs_contact("127.0.0.1".parse().unwrap())
        );
    }

    #[test]
    fn lists_may_hold_mapped_networks_and_a_byte_order_mark() {
        let g = gate(
            &["127.0.0.0/8"],
            "\u{feff}# ours\r\n::ffff:127.0.0.6\r\n",
            "\u{feff}example.org\n::ffff:127.0.2.0/120\n",
        )
        .unwrap();
        assert_eq!(judge(&g, "127.0.0.6", ""), Err(Refusal::BlockList));
        assert_eq!(judge(&g, "127.0.2.9", ""), Err(Refusal::OptOutNetwork));
        assert_eq!(judge(&g, "127.0.3.9", ""), Ok(()));
        assert_eq!(
            judge(&g, "127.0.0.1", "example.org"),
            Err(Refusal::OptOutName)
        );
    }

    #[test]
    fn a_broken_line_stops_everything() {
        assert!(
            matches!(gate(&[], "10.0.0.0/8\nten\n", ""), Err(Failure::Input(m)) if m.contains("line 2"))
        );
        assert!(matches!(gate(&[], "", "a b\n"), Err(Failure::Input(_))));
        assert!(matches!(
            gate(&["0.0.0.0/0"], "", ""),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(gate(&["lo"], "", ""), Err(Failure::Usage(_))));
    }
}
