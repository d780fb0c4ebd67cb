//! Transport parameters as JSON, in the order sent.

use firstflight_wire::Reader;
use firstflight_wire::transport::{TransportParameters, ValueKind, describe};

use super::value::{Style, write_hex, write_number};

/// [`write_json`] as a text of its own.
pub fn as_json(extension: &[u8]) -> String {
    let mut out = Vec::new();
    write_json(extension, Style::Plain, &mut out);
    // Names, digits and punctuation are all ASCII.
    String::from_utf8_lossy(&out).into_owned()
}

/// What stands between the values of an object.
struct Punctuation {
    id: &'static str,
    name: &'static str,
    no_name: &'static str,
    value: &'static str,
    value_without_name: &'static str,
    quote: &'static str,
}

static PLAIN: Punctuation = Punctuation {
    id: r#"{"id":"0x"#,
    name: r#"","name":""#,
    no_name: r#"","name":null"#,
    value: r#"","value":"#,
    value_without_name: r#","value":"#,
    quote: r#"""#,
};

static ESCAPED: Punctuation = Punctuation {
    id: r#"{\"id\":\"0x"#,
    name: r#"\",\"name\":\""#,
    no_name: r#"\",\"name\":null"#,
    value: r#"\",\"value\":"#,
    value_without_name: r#",\"value\":"#,
    quote: r#"\""#,
};

/// Appends the body of a transport parameters extension as a list of objects `{"id": "0x1", "name": "max_idle_timeout",
/// "value": 30000}`. Values are integers, `true` for a flag, else hex digits; the name is null for a parameter that is not
/// known. The list ends where the extension breaks. Nothing but quotation marks is to be escaped in it.
pub(super) fn write_json(extension: &[u8], style: Style, out: &mut Vec<u8>) {
    let marks = match style {
        Style::Plain => &PLAIN,
        Style::Json => &ESCAPED,
    };
    out.push(b'[');
    let parameters = TransportParameters::new(extension).map_while(Result::ok);
    for (i, (id, value)) in parameters.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(marks.id.as_bytes());
        write_short_hex(id, out);
        let known = describe(id);
        if let Some((name, _)) = known {
            for part in [marks.name, name, marks.value] {
                out.extend_from_slice(part.as_bytes());
            }
        } else {
            for part in [marks.no_name, marks.value_without_name] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        let mut r = Reader::new(value);
        match (known.map(|(_, kind)| kind), r.varint()) {
            (Some(ValueKind::Flag), _) if value.is_empty() => out.extend_from_slice(b"true"),
            (Some(ValueKind::Integer), Ok(number)) if r.is_empty() => write_number(number, out),
            // Bytes, or not what it should be: shown as it is.
            _ => {
                out.extend_from_slice(marks.quote.as_bytes());
                write_hex(value, out);
                out.extend_from_slice(marks.quote.as_bytes());
            }
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// Appends a number in as few hex digits as it needs.
fn write_short_hex(number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    write_hex(&number.to_be_bytes(), out);
    let zeros = out[start..].iter().take_while(|&&digit| digit == b'0');
    let unneeded = zeros.count().min(15);
    out.drain(start..start + unneeded);
}

#[cfg(test)]
mod tests {
    use super::{Style, write_json};

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
}
