//! Finds the location of the answering edge in the response's fields. firstflight/cdn/edge.py does the same in Python,
//! and names the sources. tests/cdn/edges.json has test cases for both.

use firstflight_wire::http3::FieldSection;

use super::pattern::BLANKS;

/// Maximum length of a value that is parsed, in characters.
const MOST: usize = 4096;

/// Parses the location from a value.
type Read = fn(&str) -> Option<String>;

/// The fields, in the order in which they are tried.
const FIELDS: [(&str, Read); 7] = [
    ("cf-ray", ray),
    ("x-amz-cf-pop", pop),
    ("x-served-by", served_by),
    ("x-vercel-id", vercel),
    ("x-77-pop", name),
    ("x-edge-location", name),
    ("server", bunny),
];

/// Returns the location from the first of [`FIELDS`] that is present and valid. The location is an IATA code if the
/// field is documented to have one. Otherwise it is the CDN's name of the location.
pub fn location(fields: &FieldSection) -> Option<String> {
    FIELDS.iter().find_map(|(field, read)| {
        let value = String::from_utf8_lossy(fields.get(field)?);
        (value.chars().take(MOST + 1).count() <= MOST)
            .then(|| read(value.trim_matches(BLANKS)))
            .flatten()
    })
}

/// `8f3a1b2c3d4e5f60-FRA`.
fn ray(value: &str) -> Option<String> {
    airport(value.rsplit_once('-')?.1)
}

/// `HAM50-P2`: the code is typically the code of an airport.
fn pop(value: &str) -> Option<String> {
    airport_of_pop(value).or_else(|| name(value))
}

fn airport_of_pop(value: &str) -> Option<String> {
    let (code, rest) = value.split_at_checked(3)?;
    let (number, part) = rest.split_once('-').unwrap_or((rest, "P"));
    let numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let upper = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let fits = numbered && !part.is_empty() && part.bytes().all(upper);
    fits.then(|| airport(code)).flatten()
}

/// `cache-lga21950-LGA, cache-fra-eddf8230057-FRA`: the last one is the nearest.
fn served_by(value: &str) -> Option<String> {
    let last = value.rsplit(',').next()?.trim_matches(BLANKS);
    airport(last.strip_prefix("cache-")?.rsplit('-').next()?)
}

/// `fra1::iad1::x7c9k-1769280933622-449e98882f00`: the first region is the nearest.
fn vercel(value: &str) -> Option<String> {
    let (region, _) = value.split_once("::")?;
    let (code, number) = region.split_at_checked(3)?;
    let fits = code.bytes().all(|byte| byte.is_ascii_lowercase())
        && matches!(number.len(), 1 | 2)
        && number.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| code.to_ascii_uppercase())
}

/// `BunnyCDN-DE1-1047`.
fn bunny(value: &str) -> Option<String> {
    let (pop, number) = value.strip_prefix("BunnyCDN-")?.split_once('-')?;
    (!number.contains('-')).then(|| name(pop)).flatten()
}

fn airport(text: &str) -> Option<String> {
    let fits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
    fits.then(|| text.to_owned())
}

/// Accepts a CDN's name for a location: 2 to 32 letters, digits and hyphens, without a hyphen at the start.
fn name(text: &str) -> Option<String> {
    let fits = (2..=32).contains(&text.len())
        && !text.starts_with('-')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Numbers;
    use firstflight_wire::Writer;
    use firstflight_wire::http3::{ResponseStream, write_request};
    use serde_json::Value;

    const CASES: &str = include_str!("../../../../../tests/cdn/edges.json");

    fn fields(given: &[(&str, &str)]) -> FieldSection {
        let mut out = vec![0; 10_000];
        let mut w = Writer::new(&mut out);
        let all: Vec<_> = [(":status", "200")].iter().chain(given).copied().collect();
        write_request(&mut w, &all).unwrap();
        let mut stream = ResponseStream::new(20_000);
        stream.push(w.written()).unwrap();
        stream.response().unwrap().fields.clone()
    }

    #[test]
    fn locations_are_those_of_the_cases() {
        let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
        assert!(cases.len() > 30);
        for case in &cases {
            let text = |value: &Value, at: usize| value[at].as_str().unwrap().to_owned();
            let given = case["fields"].as_array().unwrap();
            let given: Vec<_> = given.iter().map(|f| (text(f, 0), text(f, 1))).collect();
            let given: Vec<_> = given.iter().map(|(n, v)| (&n[..], &v[..])).collect();
            let found = location(&fields(&given));
            assert_eq!(found.as_deref(), case["location"].as_str(), "{given:?}");
        }
    }

    #[test]
    fn no_value_makes_it_panic() {
        let mut numbers = Numbers(6);
        let pieces = [
            "FRA",
            "fra",
            "cache-",
            "-",
            "::",
            ",",
            " ",
            "P2",
            "50",
            "BunnyCDN-",
            "1",
            "\u{e4}",
            "\u{1f600}",
            "\0",
            "a",
        ];
        for _ in 0..20_000 {
            let value: String = (0..numbers.next(8))
                .map(|_| pieces[numbers.next(pieces.len())])
                .collect();
            for (field, read) in FIELDS {
                let Some(found) = read(&value) else { continue };
                let fits = found
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-');
                assert!(
                    fits && (2..=32).contains(&found.len()),
                    "{field}: {value:?}"
                );
            }
        }
    }

    #[test]
    fn a_long_value_is_not_looked_at() {
        let ray = format!("{}-FRA", "x".repeat(MOST - 4));
        assert_eq!(
            location(&fields(&[("cf-ray", &ray)])).as_deref(),
            Some("FRA")
        );
        assert_eq!(location(&fields(&[("cf-ray", &format!("x{ray}"))])), None);
    }
}
