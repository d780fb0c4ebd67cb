//! Targets of the list and of the feed. The list is kept as compact text (about 16 bytes per target in
//! addition to the text) and parsed again when a target is probed.

mod backlog;
pub(crate) mod csv;
mod groups;
mod order;

pub use backlog::Backlog;
pub use groups::{Groups, Standing};
pub use order::shuffle;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Smallest number of a planned probe of the feed. Lines in a list have smaller numbers.
pub const FIRST_PLANNED: u32 = 1 << 31;

/// Why a target cannot be added to a list.
pub const TOO_LONG: &str = "the list is longer than 4 GB";

struct Entry {
    offset: u32,
    line: u32,
    group: u32,
    port: u16,
    ip_len: u8,
    domain_len: u8,
}

/// All targets in the order of the input.
#[derive(Default)]
pub struct TargetList {
    text: String,
    entries: Vec<Entry>,
    /// Origin AS by target number, 0 if it is not given. Empty if the list has no such column.
    asns: Vec<u32>,
    has_asn: bool,
    /// Lines that could not be parsed.
    pub rejected: u64,
}

/// A line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Line number in the input. The header is line 1.
    pub line: u32,
    /// The address as given.
    pub ip_text: &'a str,
    /// Empty: no SNI.
    pub domain: &'a str,
    pub port: u16,
    /// Targets in a group can be paused together; 0: no group.
    pub group: u32,
    /// Origin AS of the address, as given; 0: not given.
    pub asn: u32,
}

/// A target of the feed.
#[derive(Debug, PartialEq, Eq)]
pub struct FedTarget {
    pub number: u32,
    pub ip_text: Box<str>,
    pub ip: IpAddr,
    pub domain: Box<str>,
    pub port: u16,
    /// By convention of the feed, the origin AS of the address; 0: not given.
    pub group: u32,
    /// The owner agreed to more probes than the limit per address permits.
    pub owned: bool,
}

/// Identifies a target of the list or of the feed.
#[derive(Clone, Debug)]
pub enum TargetRef {
    Listed(u32),
    Fed(Arc<FedTarget>),
}

impl Target<'_> {
    /// Returns the address.
    pub fn ip(&self) -> IpAddr {
        self.ip_text.parse().expect("checked when it was read")
    }

    /// Returns the address and the port.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip(), self.port)
    }

    /// Returns the name for SNI: without the root's dot (RFC 6066 3).
    pub fn sni(&self) -> &str {
        self.domain.strip_suffix('.').unwrap_or(self.domain)
    }
}

impl TargetList {
    /// Adds a target. Check the address and name before.
    pub fn push(&mut self, target: &Target<'_>) -> Result<(), &'static str> {
        self.entries.push(Entry {
            offset: u32::try_from(self.text.len()).map_err(|_| TOO_LONG)?,
            line: target.line,
            group: target.group,
            port: target.port,
            // An address has at most 45 characters, a host name at most 254.
            ip_len: target.ip_text.len() as u8,
            domain_len: target.domain.len() as u8,
        });
        self.text.push_str(target.ip_text);
        self.text.push_str(target.domain);
        if self.has_asn {
            self.asns.push(target.asn);
        }
        Ok(())
    }

    /// Creates an empty list. `has_asn`: whether the targets have an origin AS.
    pub fn with_asn(has_asn: bool) -> TargetList {
        TargetList {
            has_asn,
            ..TargetList::default()
        }
    }

    /// Returns whether the list has an origin AS for each target.
    pub fn has_asn(&self) -> bool {
        self.has_asn
    }

    /// Frees unused memory.
    pub fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.asns.shrink_to_fit();
    }

    /// Returns the targets numbered in `order`, in that order. Targets that are probed one after the other
    /// are then neighbours in memory, which saves most of the cost of reading a long list in random order.
    pub fn picked(&self, order: &[u32]) -> TargetList {
        let mut list = TargetList {
            text: String::with_capacity(self.text.len()),
            entries: Vec::with_capacity(order.len()),
            asns: order
                .iter()
                .filter_map(|index| self.asns.get(*index as usize))
                .copied()
                .collect(),
            has_asn: self.has_asn,
            rejected: self.rejected,
        };
        for index in order {
            let entry = &self.entries[*index as usize];
            let start = entry.offset as usize;
            let end = start + usize::from(entry.ip_len) + usize::from(entry.domain_len);
            list.entries.push(Entry {
                offset: list.text.len() as u32,
                ..*entry
            });
            list.text.push_str(&self.text[start..end]);
        }
        list
    }

    /// Returns the number of targets.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no targets.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns target number `index`, from 0.
    pub fn get(&self, index: u32) -> Target<'_> {
        let entry = &self.entries[index as usize];
        let start = entry.offset as usize;
        let middle = start + usize::from(entry.ip_len);
        let ip_text = &self.text[start..middle];
        Target {
            line: entry.line,
            ip_text,
            domain: &self.text[middle..middle + usize::from(entry.domain_len)],
            port: entry.port,
            group: entry.group,
            asn: self.asns.get(index as usize).copied().unwrap_or_default(),
        }
    }

    /// Returns the target, of this list or of the feed.
    pub fn look<'a>(&'a self, which: &'a TargetRef) -> Target<'a> {
        match which {
            TargetRef::Listed(index) => self.get(*index),
            TargetRef::Fed(fed) => Target {
                line: fed.number,
                ip_text: &fed.ip_text,
                domain: &fed.domain,
                port: fed.port,
                group: fed.group,
                asn: fed.group,
            },
        }
    }

    /// Returns all targets in the order of the input.
    pub fn iter(&self) -> impl Iterator<Item = Target<'_>> {
        (0..self.len()).map(|i| self.get(i as u32))
    }

    /// Returns the number of the target at this line of the input. The list must be in the order of the
    /// input.
    pub fn at_line(&self, line: u32) -> Option<u32> {
        self.entries
            .binary_search_by_key(&line, |e| e.line)
            .ok()
            .map(|i| i as u32)
    }
}

#[cfg(test)]
mod tests;
