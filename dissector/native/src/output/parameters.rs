//! Transport parameters as JSON, in the order sent.

use std::sync::LazyLock;

use firstflight_records::Style;
use firstflight_wire::Reader;
use firstflight_wire::transport::{TransportParameters, ValueKind, describe};

use super::text::{write_hex, write_number, write_piece};

/// As [`write_json`], but returns the text.
pub fn as_json(extension: &[u8]) -> String {
    let mut out = Vec::new();
    write_json(extension, Style::Plain, &mut out);
    // Names, digits and punctuation are ASCII.
    String::from_utf8_lossy(&out).into_owned()
}

/// The text before a parameter's value, `{"id":"0x1","name":"max_idle_timeout","value":`.
fn before_value(id: u64) -> String {
    match describe(id) {
        Some((name, _)) => format!(r#"{{"id":"{id:#x}","name":"{name}","value":"#),
        None => format!(r#"{{"id":"{id:#x}","name":null,"value":"#),
    }
}

/// Common parameters have an ID below this.
const COMMON: u64 = 0x40;
/// Length that is sufficient for the [`before_value`] of each common parameter.
const LONGEST: usize = 96;

/// [`before_value`] for a common parameter.
struct Before {
    text: [u8; LONGEST],
    length: usize,
}

impl Before {
    fn new(text: &str) -> Before {
        let mut before = Before {
            text: [0; LONGEST],
            length: text.len(),
        };
        before.text[..text.len()].copy_from_slice(text.as_bytes());
        before
    }
}

/// The texts of all common parameters, plain and with escaped quotation marks. Every connection needs them twice.
static BEFORE_COMMON: LazyLock<Vec<[Before; 2]>> = LazyLock::new(|| {
    let escaped = |id| before_value(id).replace('"', r#"\""#);
    let both = |id| [Before::new(&before_value(id)), Before::new(&escaped(id))];
    (0..COMMON).map(both).collect()
});

/// Appends the body of a transport parameters extension as a list of objects `{"id": "0x1", "name": "max_idle_timeout",
/// "value": 30000}`. Values are integers, `true` for a flag, else hex digits. The name of an unknown parameter is null.
/// The list stops at the first malformed parameter. Only quotation marks need an escape.
pub(super) fn write_json(extension: &[u8], style: Style, out: &mut Vec<u8>) {
    let is_escaped = style == Style::Json;
    let quote: &[u8] = if is_escaped { br#"\""# } else { br#"""# };
    let common = &*BEFORE_COMMON;
    out.push(b'[');
    let parameters = TransportParameters::new(extension).map_while(Result::ok);
    for (i, (id, value)) in parameters.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match usize::try_from(id).ok().and_then(|id| common.get(id)) {
            Some(both) => {
                let before = &both[usize::from(is_escaped)];
                write_piece(&before.text, before.length, out);
            }
            None if is_escaped => {
                out.extend_from_slice(before_value(id).replace('"', r#"\""#).as_bytes());
            }
            None => out.extend_from_slice(before_value(id).as_bytes()),
        }
        let mut r = Reader::new(value);
        match (describe(id).map(|(_, kind)| kind), r.varint()) {
            (Some(ValueKind::Flag), _) if value.is_empty() => out.extend_from_slice(b"true"),
            (Some(ValueKind::Integer), Ok(number)) if r.is_empty() => write_number(number, out),
            // Bytes, or a value of the wrong type, shown as hex digits.
            _ => {
                out.extend_from_slice(quote);
                write_hex(value, out);
                out.extend_from_slice(quote);
            }
        }
        out.push(b'}');
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::{Style, as_json, write_json};

    #[test]
    fn values_are_readable_and_in_order() {
        let extension = [
            0x0c, 0, 0x04, 2, 0x44, 0, 0x0f, 2, 0xab, 0xcd, 0x71, 0x27, 1, 9, 0x01, 2, 1, 1, 0x00,
            1, 7, 0x03, 9,
        ];
        let expected = concat!(
            r#"[{"id":"0xc","name":"disable_active_migration","value":true},"#,
            r#"{"id":"0x4","name":"initial_max_data","value":1024},"#,
            r#"{"id":"0xf","name":"initial_source_connection_id","value":"abcd"},"#,
            r#"{"id":"0x3127","name":null,"value":"09"},"#,
            r#"{"id":"0x1","name":"max_idle_timeout","value":"0101"},"#,
            r#"{"id":"0x0","name":"original_destination_connection_id","value":"07"}]"#
        );
        let mut plain = Vec::new();
        write_json(&extension, Style::Plain, &mut plain);
        assert_eq!(std::str::from_utf8(&plain), Ok(expected));
        let mut escaped = Vec::new();
        write_json(&extension, Style::Json, &mut escaped);
        let quoted = [b"\"", &escaped[..], b"\""].concat();
        assert_eq!(quoted, serde_json::to_vec(expected).unwrap());
    }

    #[test]
    fn values_that_are_not_of_their_kind_are_shown_as_bytes() {
        for (extension, expected) in [
            // A flag with a value, an integer with a byte too many, an empty integer.
            (
                &[0x0c, 1, 5][..],
                r#"[{"id":"0xc","name":"disable_active_migration","value":"05"}]"#,
            ),
            (
                &[0x0b, 2, 25, 0],
                r#"[{"id":"0xb","name":"max_ack_delay","value":"1900"}]"#,
            ),
            (
                &[0x0b, 0],
                r#"[{"id":"0xb","name":"max_ack_delay","value":""}]"#,
            ),
            (
                &[0x0b, 1, 25],
                r#"[{"id":"0xb","name":"max_ack_delay","value":25}]"#,
            ),
            // The IDs around the upper limit of the common parameters.
            (&[0x3f, 1, 9], r#"[{"id":"0x3f","name":null,"value":"09"}]"#),
            (
                &[0x40, 0x40, 1, 9],
                r#"[{"id":"0x40","name":null,"value":"09"}]"#,
            ),
            (
                &[0x6a, 0xb2, 0],
                r#"[{"id":"0x2ab2","name":"grease_quic_bit","value":true}]"#,
            ),
            (&[], "[]"),
            // The list stops at the malformed parameter.
            (
                &[0x0b, 1, 25, 0x0b, 9],
                r#"[{"id":"0xb","name":"max_ack_delay","value":25}]"#,
            ),
        ] {
            assert_eq!(as_json(extension), expected, "{extension:?}");
            let mut escaped = Vec::new();
            write_json(extension, Style::Json, &mut escaped);
            let escaped = String::from_utf8(escaped).unwrap();
            assert_eq!(escaped, expected.replace('"', r#"\""#));
        }
    }
}
