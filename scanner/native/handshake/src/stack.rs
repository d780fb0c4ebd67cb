//! Which implementation of QUIC a server is, by the order and values of its transport parameters.

mod known;

use std::sync::LazyLock;

use known::{KNOWN, Known};

/// One parameter of an entry of the table: `0a`, `0a=3`, `0c?`.
struct Element<'a> {
    id: &'a str,
    /// `None`: any, or none.
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

/// The identifier and the value of a parameter in a fingerprint.
fn split(parameter: &str) -> (&str, Option<&str>) {
    match parameter.split_once('=') {
        Some((id, value)) => (id, Some(value)),
        None => (parameter, None),
    }
}

/// An entry of the table as it is compared: by identifier if any order counts.
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
            name: known.name,
            elements,
            any_order: known.any_order,
        }
    }

    /// Identifiers are there once in an entry, so the first element that fits a parameter is the only one.
    fn fits(&self, fingerprint: &Fingerprint<'_>) -> bool {
        let there = if self.any_order {
            &fingerprint.sorted
        } else {
            &fingerprint.parameters
        };
        in_order(there, &self.elements)
    }
}

/// The parameters of a fingerprint as they came, and by identifier.
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

/// The table, read once.
static ENTRIES: LazyLock<Vec<Entry<'static>>> =
    LazyLock::new(|| KNOWN.iter().map(Entry::new).collect());

/// The implementation whose transport parameters have this fingerprint (`TransportParameters::fingerprint`);
/// `None` if the table has none, or several.
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
