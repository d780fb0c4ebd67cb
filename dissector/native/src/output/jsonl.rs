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
    write!(out, "{{\"kind\":\"{kind}\"")?;
    for (column, value) in columns.iter().zip(row) {
        write!(out, ",\"{}\":", column.name)?;
        match value {
            Value::Null => out.write_all(b"null")?,
            Value::Bool(value) => write!(out, "{value}")?,
            Value::Int(value) => write!(out, "{value}")?,
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
