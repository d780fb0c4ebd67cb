//! JSON lines: every column present, null as null, integers unquoted, the kind in front.

use std::io::{self, Write};

use super::{Column, Value};

/// Writes one line.
pub(super) fn write_row(
    out: &mut impl Write,
    kind: &str,
    columns: &[Column],
    row: &[Value],
) -> io::Result<()> {
    // No formatting machinery: a campaign's rows are written here.
    out.write_all(b"{\"kind\":\"")?;
    out.write_all(kind.as_bytes())?;
    out.write_all(b"\"")?;
    for (column, value) in columns.iter().zip(row) {
        out.write_all(b",\"")?;
        out.write_all(column.name.as_bytes())?;
        out.write_all(b"\":")?;
        match value {
            Value::Null => out.write_all(b"null")?,
            Value::Bool(true) => out.write_all(b"true")?,
            Value::Bool(false) => out.write_all(b"false")?,
            Value::Int(value) => serde_json::to_writer(&mut *out, value)?,
            Value::Float(value) => serde_json::to_writer(&mut *out, value)?,
            Value::Text(text) => serde_json::to_writer(&mut *out, text)?,
        }
    }
    out.write_all(b"}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Type, maybe};

    #[test]
    fn text_is_escaped_and_null_is_null() {
        let columns = [
            maybe("a", Type::String),
            maybe("b", Type::I64),
            maybe("c", Type::Bool),
        ];
        let mut out = Vec::new();
        write_row(
            &mut out,
            "k",
            &columns,
            &["x\"\n\u{1}".into(), Value::Null, true.into()],
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"kind\":\"k\",\"a\":\"x\\\"\\n\\u0001\",\"b\":null,\"c\":true}\n"
        );
    }
}
