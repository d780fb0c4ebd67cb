//! The entries in a run's lists: blocked addresses, and addresses and names that opted out.

use std::collections::HashSet;
use std::net::IpAddr;

use super::list_line::{Entry, content, entry};
use super::networks::NetworkSet;
use crate::Failure;

/// Which list an entry is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Addresses, networks and ranges.
    Block,
    /// Addresses, networks, ranges and names.
    OptOut,
}

/// Entries of lists. Entries are added but never removed.
#[derive(Debug, Default)]
pub struct Listed {
    pub blocked: NetworkSet,
    pub opted_out: NetworkSet,
    names: HashSet<Box<str>>,
}

impl Listed {
    /// Adds the entries in the `text` of a list; `name` is the list's name in messages. If a line cannot be
    /// read, this fails and adds no entry: an incomplete list would not protect everybody.
    pub fn add(&mut self, kind: Kind, name: &str, text: &str) -> Result<(), Failure> {
        let (mut ranges, mut names) = (Vec::new(), Vec::new());
        for line in lines(name, text) {
            match line? {
                (_, Entry::Addresses(first, last)) => ranges.push((first, last)),
                (_, Entry::Name(name)) if kind == Kind::OptOut => names.push(name),
                (at, Entry::Name(name)) => {
                    return Err(wrong(&at, &name, "is no address, network or range"));
                }
            }
        }
        let set = match kind {
            Kind::Block => &mut self.blocked,
            Kind::OptOut => &mut self.opted_out,
        };
        set.add(ranges.into_iter().flat_map(with_unmapped));
        self.names
            .extend(names.into_iter().map(String::into_boxed_str));
        Ok(())
    }

    /// Returns whether the opt-out lists name `domain` or a domain above it.
    pub fn covers(&self, domain: &str) -> bool {
        if self.names.is_empty() {
            return false;
        }
        let lower = domain.trim_end_matches('.').to_ascii_lowercase();
        let mut rest = lower.as_str();
        loop {
            if self.names.contains(rest) {
                return true;
            }
            match rest.split_once('.') {
                Some((_, above)) => rest = above,
                None => return false,
            }
        }
    }
}

/// Returns a list's entries, each with the location: (`FILE, line N`, entry).
fn lines<'a>(
    name: &'a str,
    text: &'a str,
) -> impl Iterator<Item = Result<(String, Entry), Failure>> + 'a {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.split('\n').zip(1..).filter_map(move |(line, number)| {
        let at = || format!("{name}, line {number}");
        match content(line).and_then(|text| text.map(entry).transpose()) {
            Ok(None) => None,
            Ok(Some(entry)) => Some(Ok((at(), entry))),
            Err(why) => Some(Err(wrong(&at(), line.trim(), why))),
        }
    })
}

fn wrong(at: &str, text: &str, why: &str) -> Failure {
    Failure::Input(format!(
        "{at}: {text:?} {why}; correct it, nothing was sent"
    ))
}

/// An IPv4-mapped range also stands for the IPv4 addresses.
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
