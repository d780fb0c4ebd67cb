//! Transport parameters as JSON text.

use std::fmt::Write;

use super::{TransportParameters, ValueKind, describe};
use crate::Reader;

impl TransportParameters<'_> {
    /// Returns all parameters in wire order: `[{"id":"0x01","name":"max_idle_timeout","value":30000},...]`.
    ///
    /// The name of an unknown parameter is null. The value is an integer, or `true` for a flag. Other values, and
    /// values of the wrong type, are hex digits. The list stops where the extension is malformed. It has at most
    /// `most` parameters and `most_bytes` bytes. If these limits omit parameters, a last entry `{"more":COUNT}`
    /// gives their number; the limits do not apply to this entry.
    pub fn as_json(self, most: usize, most_bytes: usize) -> String {
        let mut out = String::from("[");
        let mut parameters = self.map_while(Result::ok).enumerate();
        for (i, (id, value)) in parameters.by_ref() {
            let length = out.len();
            if i < most {
                push_parameter(&mut out, id, value);
            }
            if i >= most || out.len() > most_bytes {
                out.truncate(length);
                separate(&mut out);
                let more = 1 + parameters.count();
                // Writing to a String does not fail, here and below.
                let _ = write!(out, r#"{{"more":{more}}}"#);
                break;
            }
        }
        out.push(']');
        out
    }
}

fn separate(out: &mut String) {
    if out.len() > 1 {
        out.push(',');
    }
}

fn push_parameter(out: &mut String, id: u64, value: &[u8]) {
    separate(out);
    let known = describe(id);
    let _ = match known {
        Some((name, _)) => write!(out, r#"{{"id":"{id:#04x}","name":"{name}","value":"#),
        None => write!(out, r#"{{"id":"{id:#04x}","name":null,"value":"#),
    };
    let mut r = Reader::new(value);
    match (known.map(|(_, kind)| kind), r.varint()) {
        (Some(ValueKind::Flag), _) if value.is_empty() => out.push_str("true"),
        (Some(ValueKind::Integer), Ok(number)) if r.is_empty() => {
            let _ = write!(out, "{number}");
        }
        _ => {
            out.push('"');
            for byte in value {
                let _ = write!(out, "{byte:02x}");
            }
            out.push('"');
        }
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAG: &str = r#"{"id":"0x0c","name":"disable_active_migration","value":true}"#;
    const INTEGER: &str = r#"{"id":"0x04","name":"initial_max_data","value":1024}"#;
    const BYTES: &str = r#"{"id":"0x0f","name":"initial_source_connection_id","value":"abcd"}"#;
    const UNKNOWN: &str = r#"{"id":"0x3127","name":null,"value":"09"}"#;

    /// The four parameters above, on the wire.
    const EXTENSION: [u8; 14] = [
        0x0c, 0, 0x04, 2, 0x44, 0, 0x0f, 2, 0xab, 0xcd, 0x71, 0x27, 1, 9,
    ];

    fn json(extension: &[u8], most: usize, most_bytes: usize) -> String {
        TransportParameters::new(extension).as_json(most, most_bytes)
    }

    #[test]
    fn parameters_in_wire_order() {
        let all = format!("[{FLAG},{INTEGER},{BYTES},{UNKNOWN}]");
        assert_eq!(json(&EXTENSION, 4, 1000), all);
        assert_eq!(json(&[], 4, 1000), "[]");
        // The list stops where the extension is malformed.
        for cut in 11..14 {
            let three = format!("[{FLAG},{INTEGER},{BYTES}]");
            assert_eq!(json(&EXTENSION[..cut], 4, 1000), three);
        }
    }

    #[test]
    fn the_rest_is_counted() {
        let three = format!("[{FLAG},{INTEGER},{BYTES}");
        let two = format!("[{FLAG},{INTEGER}");
        for (most, most_bytes, expected) in [
            (3, 1000, format!(r#"{three},{{"more":1}}]"#)),
            (2, 1000, format!(r#"{two},{{"more":2}}]"#)),
            (0, 1000, r#"[{"more":4}]"#.to_owned()),
            (4, three.len(), format!(r#"{three},{{"more":1}}]"#)),
            (4, three.len() - 1, format!(r#"{two},{{"more":2}}]"#)),
            (4, 0, r#"[{"more":4}]"#.to_owned()),
        ] {
            assert_eq!(json(&EXTENSION, most, most_bytes), expected);
        }
        assert_eq!(json(&[], 0, 0), "[]");
    }

    #[test]
    fn values_that_are_not_of_their_kind_are_hex() {
        for (extension, value) in [
            (&[0x0c, 1, 5][..], r#""05""#),
            (&[0x0b, 2, 25, 0], r#""1900""#),
            (&[0x0b, 0], r#""""#),
            (&[0x0b, 1, 25], "25"),
            (&[0x03, 2, 0x45, 0xac], "1452"),
            (&[0x0f, 0], r#""""#),
            (&[0x1b, 1, 7], r#""07""#),
        ] {
            let text = json(extension, 9, 1000);
            assert!(text.ends_with(&format!(r#""value":{value}}}]"#)), "{text}");
        }
    }
}
