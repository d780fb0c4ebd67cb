//! Distinguished names as text (RFC 4514).

use x509_parser::asn1_rs::{Any, Class, Tag, ToDer};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::oid::{dotted, hex};

/// Longest text for a name in bytes.
pub const MOST_BYTES: usize = 4096;

/// Attribute types with a short name (RFC 4514 3, RFC 4519 2); others are written as numbers.
const TYPES: [(&str, &str); 16] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.42", "givenName"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
];

/// Returns the name as text, with the last relative name first, and whether the text is complete. A text of
/// more than [`MOST_BYTES`] bytes is cut between two characters.
pub fn text(name: &X509Name<'_>) -> (String, bool) {
    let mut out = String::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for (i, part) in parts.iter().rev().enumerate() {
        if i > 0 {
            out.push(',');
        }
        for (i, attribute) in part.iter().enumerate() {
            if i > 0 {
                out.push('+');
            }
            push_attribute(&mut out, attribute);
            if out.len() > MOST_BYTES {
                let end = out.floor_char_boundary(MOST_BYTES);
                out.truncate(end);
                return (out, false);
            }
        }
    }
    (out, true)
}

fn push_attribute(out: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    let id = dotted(attribute.attr_type().as_bytes());
    let value = attribute.attr_value();
    let known = TYPES.iter().find(|(known, _)| *known == id);
    out.push_str(known.map_or(&id, |(_, name)| name));
    out.push('=');
    match known.and_then(|_| string(value)) {
        Some(string) => push_escaped(out, &string),
        // RFC 4514 2.4: the type has no name, or the value is not a string. Bytes beyond the limit are not
        // needed.
        None => {
            let der = value.to_der_vec().unwrap_or_default();
            out.push('#');
            out.push_str(&hex(&der[..der.len().min(MOST_BYTES)]));
        }
    }
}

/// Returns a value's characters; `None` if it is not a string or has invalid bytes.
fn string(value: &Any<'_>) -> Option<String> {
    let bytes = value.data;
    if value.class() != Class::Universal {
        return None;
    }
    match value.tag() {
        Tag::Utf8String
        | Tag::PrintableString
        | Tag::Ia5String
        | Tag::NumericString
        | Tag::VisibleString
        | Tag::T61String => Some(std::str::from_utf8(bytes).ok()?.to_owned()),
        Tag::BmpString if bytes.len().is_multiple_of(2) => {
            let pairs = bytes.chunks_exact(2);
            let units: Vec<u16> = pairs.map(|b| u16::from_be_bytes([b[0], b[1]])).collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}

/// Escapes as RFC 4514 2.4 requires, and writes control characters as bytes in hex.
fn push_escaped(out: &mut String, string: &str) {
    let last = string.chars().count().saturating_sub(1);
    for (i, character) in string.chars().enumerate() {
        let is_edge = (i == 0 && matches!(character, ' ' | '#')) || (i == last && character == ' ');
        if is_edge || matches!(character, '"' | '+' | ',' | ';' | '<' | '>' | '\\') {
            out.push('\\');
            out.push(character);
        } else if character.is_control() {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                out.push('\\');
                out.push_str(&hex(&[byte]));
            }
        } else {
            out.push(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::string::{BmpString, PrintableString};
    use rcgen::{DistinguishedName, DnType, DnValue, KeyPair};

    use crate::describe;
    use crate::testing::{parameters, signed_by_itself};

    fn subject(attributes: Vec<(DnType, DnValue)>) -> (String, Option<String>) {
        let mut of = parameters("a.example");
        of.distinguished_name = DistinguishedName::new();
        for (kind, value) in attributes {
            of.distinguished_name.push(kind, value);
        }
        let found = describe(&signed_by_itself(of, &KeyPair::generate().unwrap()));
        assert_eq!(found.subject, found.issuer);
        (found.subject, found.error)
    }

    fn utf8(text: &str) -> DnValue {
        DnValue::Utf8String(text.to_owned())
    }

    #[test]
    fn the_last_part_comes_first() {
        let printable = PrintableString::try_from("DE").unwrap();
        let attributes = vec![
            (DnType::CountryName, DnValue::PrintableString(printable)),
            (DnType::OrganizationName, utf8("Lab, Inc.")),
            (
                DnType::CommonName,
                DnValue::BmpString(BmpString::try_from("a.éxample").unwrap()),
            ),
        ];
        let expected = r"CN=a.éxample,O=Lab\, Inc.,C=DE";
        assert_eq!(subject(attributes), (expected.to_owned(), None));
        assert_eq!(subject(vec![]), (String::new(), None));
    }

    #[test]
    fn characters_that_are_escaped() {
        for (value, text) in [
            ("#a#", r"\#a#"),
            (" a b ", r"\ a b\ "),
            (" ", r"\ "),
            ("", ""),
            (r#"a"+,;<>\=b"#, r#"a\"\+\,\;\<\>\\=b"#),
            ("a\0\n\u{85}", r"a\00\0a\c2\85"),
        ] {
            let (subject, _) = subject(vec![(DnType::OrganizationName, utf8(value))]);
            assert_eq!(subject, format!("O={text}"));
        }
    }

    #[test]
    fn types_without_a_name_are_numbers() {
        let kind = DnType::CustomDnType(vec![1, 2, 3, 4]);
        let (subject, _) = subject(vec![(kind, utf8("ab"))]);
        assert_eq!(subject, "1.2.3.4=#0c026162");
    }

    #[test]
    fn long_names_are_cut() {
        for (value, length) in [
            ("é".repeat(2047), 4096),
            ("é".repeat(2048), 4096),
            (format!("x{}", "é".repeat(2047)), 4095),
            ("x".repeat(60_000), 4096),
        ] {
            let is_cut = value.len() + "O=".len() > 4096;
            let (subject, error) = subject(vec![(DnType::OrganizationName, utf8(&value))]);
            assert_eq!(subject.len(), length);
            let cut = "issuer is cut; subject is cut".to_owned();
            assert_eq!(error, is_cut.then_some(cut));
        }
    }
}
