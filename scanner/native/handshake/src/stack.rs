//! Which implementation of QUIC a server is, by the order and values of its transport parameters.

mod known;

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

/// The implementation whose transport parameters have this fingerprint (`TransportParameters::fingerprint`);
/// `None` if the table has none, or several.
pub fn name(fingerprint: &str) -> Option<&'static str> {
    only(KNOWN, fingerprint)
}

fn only(table: &[Known], fingerprint: &str) -> Option<&'static str> {
    let mut names = table
        .iter()
        .filter(|known| fits(known, fingerprint))
        .map(|known| known.name);
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

/// Identifiers are there once in an entry, so the first element that fits a parameter is the only one.
fn fits(known: &Known, fingerprint: &str) -> bool {
    let there = fingerprint.split(',');
    let wanted = known.parameters.split(',').map(Element::new);
    if !known.any_order {
        return in_order(there, wanted);
    }
    let mut there: Vec<&str> = there.collect();
    let mut wanted: Vec<Element<'_>> = wanted.collect();
    there.sort_unstable_by_key(|parameter| split(parameter).0);
    wanted.sort_unstable_by_key(|element| element.id);
    in_order(there.into_iter(), wanted.into_iter())
}

fn in_order<'a>(
    there: impl Iterator<Item = &'a str>,
    wanted: impl Iterator<Item = Element<'a>>,
) -> bool {
    let mut there = there.peekable();
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
