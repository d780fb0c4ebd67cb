//! Transport parameters as JSON, in the order sent.

use firstflight_wire::Reader;
use firstflight_wire::transport::{TransportParameters, ValueKind, describe};
use serde_json::{Value, json};

use super::quic_packet::hex;

/// The body of a transport parameters extension as a list of objects `{"id": "0x1", "name": "max_idle_timeout", "value": 30000}`.
/// Values are integers, `true` for a flag, else hex digits; the name is null for a parameter that is not known. The list
/// ends where the extension breaks.
pub fn as_json(extension: &[u8]) -> String {
    let list: Vec<Value> = TransportParameters::new(extension)
        .map_while(Result::ok)
        .map(|(id, value)| {
            let known = describe(id);
            json!({
                "id": format!("{id:#x}"),
                "name": known.map(|(name, _)| name),
                "value": readable(known.map(|(_, kind)| kind), value),
            })
        })
        .collect();
    Value::Array(list).to_string()
}

fn readable(kind: Option<ValueKind>, value: &[u8]) -> Value {
    let mut r = Reader::new(value);
    match kind {
        Some(ValueKind::Flag) if value.is_empty() => Value::Bool(true),
        Some(ValueKind::Integer) => match r.varint() {
            Ok(number) if r.is_empty() => number.into(),
            // Not what it should be: shown as it is.
            _ => hex(value).into(),
        },
        _ => hex(value).into(),
    }
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
