//! Host names in lists and in the feed.
//!
//! `firstflight/host_names.py` reads the same names. tests/field/names.json tests both. The Python module
//! also converts international names; engines accept only ASCII.

use std::net::IpAddr;

/// Most characters in a name and in a label (RFC 1035 2.3.4).
const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;

/// Returns whether `text` has the form of a host name: labels of 1 to 63 letters, digits, `-` and `_`, at most 253
/// characters, with or without the root's dot.
pub fn is_host_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    name.len() <= LONGEST
        && name
            .split('.')
            .all(|l| (1..=LONGEST_LABEL).contains(&l.len()) && l.bytes().all(good))
}

/// Returns why `text` is not a host name that can be queried, for use after "rejected: "; `None`: it is one.
/// Host names consist of letters, digits and hyphens (RFC 1123 2.1); names in use also have underscores.
pub fn fault_of_name(text: &str) -> Option<&'static str> {
    let name = text.strip_suffix('.').unwrap_or(text);
    if text.is_empty() {
        return Some("the name is empty");
    }
    if text.contains('/') {
        return Some("it is a URL, a path or a network; write only the host's name");
    }
    if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() || name.parse::<IpAddr>().is_ok() {
        return Some("it is an address, not a name");
    }
    if text.contains([',', ';', '\t', ' ']) {
        return Some("it has several fields; write only the name, without its rank");
    }
    if text.contains(':') {
        return Some("it has a port; write only the name");
    }
    if text.contains('\u{fffd}') {
        return Some("it is not UTF-8 text");
    }
    if !text.is_ascii() {
        return Some("it is not in ASCII; write an international name as xn--...");
    }
    if name.len() > LONGEST {
        return Some("it is longer than 253 characters");
    }
    if name.split('.').any(str::is_empty) {
        return Some("it has an empty label");
    }
    if name.split('.').any(|label| label.len() > LONGEST_LABEL) {
        return Some("it has a label of more than 63 characters");
    }
    if !is_host_name(name) {
        return Some("it has characters that no host's name has");
    }
    let hyphen = |label: &str| label.starts_with('-') || label.ends_with('-');
    if name.split('.').any(hyphen) {
        return Some("it has a label that begins or ends with a hyphen");
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("it ends in a number, as only addresses do");
    }
    None
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn host_names() {
        assert!(
            is_host_name("xn--bcher-kva.example") && is_host_name("_x.a") && is_host_name("a.")
        );
        let long = "a.".repeat(127);
        assert!(
            !is_host_name("")
                && !is_host_name("a..b")
                && !is_host_name("bücher.example")
                && !is_host_name("*.a")
        );
        assert!(is_host_name(&long[..253]) && !is_host_name(&format!("{}bb", &long[..253])));
        assert!(!is_host_name(&"a".repeat(64)));
    }

    #[derive(Deserialize)]
    struct Case {
        text: String,
        times: Option<usize>,
        /// Part of the engines' error message; null: the name is valid.
        fault: Option<String>,
    }

    #[test]
    fn names_are_what_the_table_says() {
        let table = include_str!("../../../../tests/field/names.json");
        let cases: Vec<Case> = serde_json::from_str(table).unwrap();
        assert!(cases.len() > 40);
        for Case { text, times, fault } in cases {
            let text = text.repeat(times.unwrap_or(1));
            match (fault_of_name(&text), fault) {
                (None, None) => {}
                (Some(found), Some(part)) => assert!(found.contains(&part), "{text:?}: {found}"),
                (found, expected) => panic!("{text:?}: {found:?}, expected {expected:?}"),
            }
        }
    }
}
