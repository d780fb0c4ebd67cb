//! JSON lines: every column present, null as null, integers unquoted, the kind in front.

use std::io::{self, Write};

use super::value::{Style, write_number};
use super::{Column, Value};

/// Bytes held back until they are written.
const HELD_BACK: usize = 1 << 16;

/// A stream of JSON lines of one record kind. No formatting machinery: a campaign's rows are written here.
pub(super) struct JsonLines {
    out: Box<dyn Write + Send>,
    lines: Vec<u8>,
    /// What stands before each column's value, the first with the kind.
    names: Vec<Box<[u8]>>,
}

impl JsonLines {
    pub(super) fn new(out: Box<dyn Write + Send>, kind: &str, columns: &[Column]) -> JsonLines {
        let mut before = format!("{{\"kind\":\"{kind}\"");
        let names = columns.iter().map(|column| {
            let name = format!("{before},\"{}\":", column.name);
            before.clear();
            name.into_bytes().into()
        });
        JsonLines {
            names: names.collect(),
            out,
            lines: Vec::with_capacity(HELD_BACK * 2),
        }
    }

    /// Takes one row, whose cells stand in the order of the columns.
    pub(super) fn write_row(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        let out = &mut self.lines;
        for (name, value) in self.names.iter().zip(row) {
            out.extend_from_slice(name);
            match value {
                Value::Null => out.extend_from_slice(b"null"),
                Value::Bool(true) => out.extend_from_slice(b"true"),
                Value::Bool(false) => out.extend_from_slice(b"false"),
                Value::Int(value) => write_number(*value, out),
                Value::Float(value) => serde_json::to_writer(&mut *out, value)?,
                text => {
                    out.push(b'"');
                    text.write_text(Style::Json, out);
                    out.push(b'"');
                }
            }
        }
        out.extend_from_slice(b"}\n");
        if out.len() >= HELD_BACK {
            self.write_out()
        } else {
            Ok(())
        }
    }

    /// Writes out what is held back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write_out()?;
        self.out.flush()
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.out.write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::output::{Type, maybe};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn text_is_escaped_and_null_is_null() {
        let columns = [
            maybe("a", Type::String),
            maybe("b", Type::I64),
            maybe("c", Type::Bool),
            maybe("d", Type::F64),
        ];
        let written = Shared::default();
        let mut lines = JsonLines::new(Box::new(written.clone()), "k", &columns);
        let row = ["x\"\n\u{1}".into(), Value::Null, true.into(), 0.5.into()];
        lines.write_row(&row).unwrap();
        lines
            .write_row(&[Value::Null, (-7i64).into(), Value::Null, 3.0.into()])
            .unwrap();
        assert!(written.0.lock().unwrap().is_empty());
        lines.flush().unwrap();
        assert_eq!(
            String::from_utf8(written.0.lock().unwrap().clone()).unwrap(),
            "{\"kind\":\"k\",\"a\":\"x\\\"\\n\\u0001\",\"b\":null,\"c\":true,\"d\":0.5}\n\
             {\"kind\":\"k\",\"a\":null,\"b\":-7,\"c\":null,\"d\":3.0}\n"
        );
    }
}
