//! A line in a block or opt-out list: an address, a network, a range, or a name. A line that looks like an
//! address but cannot be parsed as one is an error, never a name. As a name, it would protect nobody, and
//! nobody would notice.
//!
//! `firstflight/egress/lists.py` parses the same lines. tests/attack/files/list_lines.json tests both parsers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::host_name::is_host_name;

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// All addresses from the first to the last, of one family.
    Addresses(IpAddr, IpAddr),
    /// A name and all names below it, in lower case, without the root's dot.
    Name(String),
}

/// `10.1.2.0-24` may mean 25 addresses, or the 256 addresses of `10.1.2.0/24`.
const AMBIGUOUS: &str = "may be a range or a network: write out the last address, or a slash";

/// Parses the content of a line (see [`content`]). The error is the fault of the line.
pub fn entry(text: &str) -> Result<Entry, &'static str> {
    if let Some((first, last)) = addresses(text)? {
        return Ok(Entry::Addresses(first, last));
    }
    let wildcard = text.starts_with("*.");
    let name = text
        .trim_start_matches("*.")
        .trim_matches('.')
        .to_ascii_lowercase();
    if !is_host_name(&name) {
        return Err("is no name, address, network or range");
    }
    looks_like_addresses(&name, wildcard).map_or(Ok(Entry::Name(name)), Err)
}

/// Returns the content of a line; `None` if it is empty. `#` starts a comment anywhere in the line.
pub fn content(line: &str) -> Result<Option<&str>, &'static str> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.contains('\r') {
        return Err("holds a carriage return: end lines by a line feed");
    }
    let text = line
        .split_once('#')
        .map_or(line, |(before, _)| before)
        .trim_matches([' ', '\t']);
    Ok((!text.is_empty()).then_some(text))
}

/// Parses `192.0.2.1`, `192.0.2.0/24`, `192.0.2.1-192.0.2.9`, `192.0.2.1-9`, or the IPv6 forms of the first
/// three. Returns `None` for any other text.
fn addresses(text: &str) -> Result<Option<(IpAddr, IpAddr)>, &'static str> {
    if let Some((address, length)) = text.split_once('/') {
        let (Ok(address), Some(length)) = (address.parse(), number(length)) else {
            return Ok(None);
        };
        return network(address, length)
            .ok_or("has a prefix length beyond the address")
            .map(Some);
    }
    if let Ok(address) = text.parse() {
        return Ok(Some((address, address)));
    }
    let Some((first, last)) = text.split_once('-') else {
        return Ok(None);
    };
    let (first, last) = (
        first.trim_matches([' ', '\t']),
        last.trim_matches([' ', '\t']),
    );
    let Ok(first) = first.parse::<IpAddr>() else {
        return Ok(None);
    };
    let last = match (first, number(last).map(u8::try_from)) {
        (IpAddr::V4(v4), Some(Ok(octet))) => {
            let [a, b, c, d] = v4.octets();
            if d == 0 && (8..=32).contains(&octet) {
                return Err(AMBIGUOUS);
            }
            Ok(IpAddr::from([a, b, c, octet]))
        }
        _ => last.parse(),
    };
    match last {
        Ok(last) if first.is_ipv4() != last.is_ipv4() => Err("is a range across IPv4 and IPv6"),
        Ok(last) if last < first => Err("is a range whose end lies before its start"),
        Ok(last) => Ok(Some((first, last))),
        Err(_) => Ok(None),
    }
}

/// Parses at most nine digits without a leading zero.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain && text.len() <= 9)
}

fn network(address: IpAddr, length: u32) -> Option<(IpAddr, IpAddr)> {
    match address {
        IpAddr::V4(ip) => {
            let host = u32::MAX
                .checked_shr(length)
                .filter(|_| length <= 32)
                .unwrap_or(0);
            let first = ip.to_bits() & !host;
            (length <= 32).then(|| {
                (
                    Ipv4Addr::from_bits(first).into(),
                    Ipv4Addr::from_bits(first | host).into(),
                )
            })
        }
        IpAddr::V6(ip) => {
            let host = u128::MAX.checked_shr(length).unwrap_or(0);
            let first = ip.to_bits() & !host;
            (length <= 128).then(|| {
                (
                    Ipv6Addr::from_bits(first).into(),
                    Ipv6Addr::from_bits(first | host).into(),
                )
            })
        }
    }
}

/// Returns why a valid host name is more likely meant as addresses, if so. A top-level domain is not a number
/// (RFC 3696 2) and has more than one letter. `wildcard`: the name was written as `*.NAME`, a form only for
/// names.
fn looks_like_addresses(name: &str, wildcard: bool) -> Option<&'static str> {
    let labels: Vec<&str> = name.split('.').collect();
    let last = labels[labels.len() - 1];
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let hexadecimal = last
        .strip_prefix("0x")
        .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()));
    if name
        .bytes()
        .all(|b| b.is_ascii_digit() || b".-_".contains(&b))
        || digits(last)
        || hexadecimal
        || last.len() == 1
    {
        return Some("is no address, network or range, and no name either");
    }
    if labels.len() == 4 && labels[..3].iter().all(|label| digits(label)) && !wildcard {
        return Some(
            "looks like addresses and is no network or range; a name like that is written *.NAME",
        );
    }
    if name.ends_with(".in-addr.arpa") || name.ends_with(".ip6.arpa") {
        return Some("is the reverse name of a network: write the network itself");
    }
    let is_as = |rest: &str| !rest.is_empty() && digits(rest);
    if labels.len() == 1 && name.strip_prefix("as").is_some_and(is_as) {
        return Some("is the number of an AS: write its networks");
    }
    None
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Case {
        line: String,
        /// `[first, last]`, a name, or null for lines without content.
        means: Option<Meaning>,
        /// Part of the error message.
        error: Option<String>,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Meaning {
        Name(String),
        Addresses([IpAddr; 2]),
    }

    #[test]
    fn lines_mean_what_the_table_says() {
        let table = include_str!("../../../../../../tests/attack/files/list_lines.json");
        let cases: Vec<Case> = serde_json::from_str(table).unwrap();
        assert!(cases.len() > 60);
        for Case { line, means, error } in cases {
            let read = content(&line).and_then(|text| text.map(entry).transpose());
            match (read, error) {
                (Err(error), Some(expected)) => {
                    assert!(error.contains(&expected), "{line:?}: {error}")
                }
                (Ok(read), None) => {
                    let expected = means.map(|means| match means {
                        Meaning::Name(name) => Entry::Name(name),
                        Meaning::Addresses([first, last]) => Entry::Addresses(first, last),
                    });
                    assert_eq!(read, expected, "{line:?}");
                }
                (read, error) => panic!("{line:?}: {read:?}, expected the error {error:?}"),
            }
        }
    }
}
