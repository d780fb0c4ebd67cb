//! Transport parameters as JSON, in the order sent.

use std::fmt::Write;

use firstflight_wire::Reader;
use firstflight_wire::transport::{TransportParameters, ValueKind, describe};

use super::quic_packet::hex;

/// The body of a transport parameters extension as a list of objects `{"id": "0x1", "name": "max_idle_timeout", "value": 30000}`.
/// Values are integers, `true` for a flag, else hex digits; the name is null for a parameter that is not known. The list
/// ends where the extension breaks.
pub fn as_json(extension: &[u8]) -> String {
    // Written by hand: it is done twice for every connection.
    let mut text = String::with_capacity(1024);
    text.push('[');
    for (id, value) in TransportParameters::new(extension).map_while(Result::ok) {
        if text.len() > 1 {
            text.push(',');
        }
        let known = describe(id);
        // Writing into a String cannot fail. Names and values hold nothing to escape.
        let _ = match known {
            Some((name, _)) => write!(text, r#"{{"id":"{id:#x}","name":"{name}","value":"#),
            None => write!(text, r#"{{"id":"{id:#x}","name":null,"value":"#),
        };
        readable(known.map(|(_, kind)| kind), value, &mut text);
        text.push('}');
    }
    text.push(']');
    text
}

fn readable(kind: Option<ValueKind>, value: &[u8], text: &mut String) {
    let mut r = Reader::new(value);
    let _ = match (kind, r.varint()) {
        (Some(ValueKind::Flag), _) if value.is_empty() => write!(text, "true"),
        (Some(ValueKind::Integer), Ok(number)) if r.is_empty() => write!(text, "{number}"),
        // Bytes, or not what it should be: shown as it is.
        _ => write!(text, "\"{}\"", hex(value)),
    };
}

#[cfg(test)]
mod tests {
    use super::as_json;

    #[test]
    fn values_are_readable_and_in_order() {
        let extension = [
            0x0c, 0, 0x04, 2, 0x44, 0, 0x0f, 2, 0xab, 0xcd, 0x71, 0x27, 1, 9, 0x01, 2, 1, 1, 0x03,
            9,
        ];
        let expected = concat!(
            r#"[{"id":"0xc","name":"disable_active_migration","value":true},"#,
            r#"{"id":"0x4","name":"initial_max_data","value":1024},"#,
            r#"{"id":"0xf","name":"initial_source_connection_id","value":"abcd"},"#,
            r#"{"id":"0x3127","name":null,"value":"09"},"#,
            r#"{"id":"0x1","name":"max_idle_timeout","value":"0101"}]"#
        );
        assert_eq!(as_json(&extension), expected);
    }
}
