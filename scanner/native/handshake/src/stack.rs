//! Identifies a server's QUIC implementation by the transport parameters that no setting changes: their order, the
//! parameters that it always or never sends, and fixed values.
//!
//! The table of known implementations is known.json. An entry has the parameters in the order sent. `?` follows a
//! parameter that depends on settings or on the client. A value follows only if the program fixes it; a parameter
//! without a value accepts any value. `any_order`: the implementation permutes the parameters, or keeps them in a map.
//! `versions` says how each version is known: `capture` (a server in tests/fixtures/interop, whose version is unknown;
//! the month instead), `server` (a server of the lab or the testbed), or `source` (only its source was read).

use std::sync::LazyLock;

use serde::Deserialize;

/// An entry of the table, without its versions.
#[derive(Deserialize)]
struct Known<'a> {
    stack: &'a str,
    parameters: &'a str,
    #[serde(default)]
    any_order: bool,
}

/// Returns the entries of the table, in alphabetical order.
fn known() -> Vec<Known<'static>> {
    serde_json::from_str(include_str!("stack/known.json")).expect("the table is valid")
}

/// A parameter in an entry of the table: `0a`, `0a=3`, `0c?`.
struct Element<'a> {
    id: &'a str,
    /// The required value. `None`: any value is accepted, and a missing one too.
    value: Option<&'a str>,
    optional: bool,
}

impl<'a> Element<'a> {
    fn new(text: &'a str) -> Element<'a> {
        let (text, optional) = match text.strip_suffix('?') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (id, value) = split(text);
        Element {
            id,
            value,
            optional,
        }
    }

    fn fits(&self, parameter: &str) -> bool {
        let (id, value) = split(parameter);
        id == self.id && (self.value.is_none() || self.value == value)
    }
}

/// Returns a parameter's identifier and value in a fingerprint.
fn split(parameter: &str) -> (&str, Option<&str>) {
    match parameter.split_once('=') {
        Some((id, value)) => (id, Some(value)),
        None => (parameter, None),
    }
}

/// An entry of the table, ready to be compared. The elements are sorted by identifier if any order is accepted.
struct Entry<'a> {
    name: &'a str,
    elements: Vec<Element<'a>>,
    any_order: bool,
}

impl<'a> Entry<'a> {
    fn new(known: &Known<'a>) -> Entry<'a> {
        let mut elements: Vec<Element<'_>> =
            known.parameters.split(',').map(Element::new).collect();
        if known.any_order {
            elements.sort_unstable_by_key(|element| element.id);
        }
        Entry {
            name: known.stack,
            elements,
            any_order: known.any_order,
        }
    }

    /// An entry has each identifier only once, so at most one element fits a parameter.
    fn fits(&self, fingerprint: &Fingerprint<'_>) -> bool {
        let there = if self.any_order {
            &fingerprint.sorted
        } else {
            &fingerprint.parameters
        };
        in_order(there, &self.elements)
    }
}

/// A fingerprint's parameters, in the order received and sorted by identifier.
struct Fingerprint<'a> {
    parameters: Vec<&'a str>,
    sorted: Vec<&'a str>,
}

impl<'a> Fingerprint<'a> {
    fn new(text: &'a str) -> Fingerprint<'a> {
        let parameters: Vec<&str> = text.split(',').collect();
        let mut sorted = parameters.clone();
        sorted.sort_unstable_by_key(|parameter| split(parameter).0);
        Fingerprint { parameters, sorted }
    }
}

/// The parsed table.
static ENTRIES: LazyLock<Vec<Entry<'static>>> =
    LazyLock::new(|| known().iter().map(Entry::new).collect());

/// Returns the implementation with this fingerprint of transport parameters (`TransportParameters::fingerprint`).
/// Returns `None` if no implementation or several implementations fit.
pub fn name(fingerprint: &str) -> Option<&'static str> {
    only(&ENTRIES, fingerprint)
}

fn only<'a>(table: &[Entry<'a>], fingerprint: &str) -> Option<&'a str> {
    let fingerprint = Fingerprint::new(fingerprint);
    let mut names = table
        .iter()
        .filter(|entry| entry.fits(&fingerprint))
        .map(|entry| entry.name);
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

fn in_order(there: &[&str], wanted: &[Element<'_>]) -> bool {
    let mut there = there.iter().peekable();
    for element in wanted {
        let found = there.next_if(|parameter| element.fits(parameter));
        if found.is_none() && !element.optional {
            return false;
        }
    }
    there.next().is_none()
}

#[cfg(test)]
mod tests;
