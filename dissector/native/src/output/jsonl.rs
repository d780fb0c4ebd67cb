//! JSON lines: every column present, null as null, integers unquoted, the kind in front.

use std::io;

use firstflight_records::{Column, Row, Style, Value, Visitor};

use super::text::{write_number, write_piece, write_text};
use super::write_buffer::{Place, WriteBuffer};

/// Bytes that are copied together; most pieces are shorter.
const PIECE: usize = 64;

/// A stream of JSON lines of one record kind. No formatting machinery: a campaign's rows are written here.
pub(super) struct JsonLines {
    buffer: WriteBuffer,
    nulls: Nulls,
}

impl JsonLines {
    pub(super) fn new(place: Place, kind: &str, columns: &[Column]) -> JsonLines {
        JsonLines {
            buffer: WriteBuffer::new(place),
            nulls: Nulls::new(kind, columns),
        }
    }

    /// Takes one row.
    pub(super) fn write_row(&mut self, row: &(impl Row + ?Sized)) -> io::Result<()> {
        let mut line = Line {
            out: &mut self.buffer.bytes,
            nulls: &self.nulls,
            column: 0,
            from: 0,
        };
        row.visit(&mut line);
        line.up_to(self.nulls.length);
        self.buffer.settle()
    }

    /// Appends the lines of `other`.
    pub(super) fn append(&mut self, other: JsonLines) -> io::Result<()> {
        self.buffer.append(other.buffer)
    }

    /// Writes out what is buffered.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.buffer.flush()
    }
}

/// The line of a row of nulls. Each row is written as pieces of it with its other values between them.
struct Nulls {
    /// Followed by [`PIECE`] bytes that are never written.
    text: Box<[u8]>,
    length: usize,
    /// Where the value of each column begins.
    values: Box<[usize]>,
}

const NULL: &str = "null";

impl Nulls {
    fn new(kind: &str, columns: &[Column]) -> Nulls {
        let mut text = format!("{{\"kind\":\"{kind}\"");
        let values = columns.iter().map(|column| {
            text += &format!(",\"{}\":", column.name);
            text += NULL;
            text.len() - NULL.len()
        });
        let values = values.collect();
        text += "}\n";
        let length = text.len();
        let mut text = text.into_bytes();
        text.resize(length + PIECE, 0);
        Nulls {
            text: text.into(),
            length,
            values,
        }
    }
}

/// A line that is being written.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    nulls: &'a Nulls,
    /// Columns that were taken.
    column: usize,
    /// How far the line of nulls is taken over.
    from: usize,
}

impl Line<'_> {
    /// Takes over the line of nulls up to `end`.
    #[inline(always)]
    fn up_to(&mut self, end: usize) {
        let rest = &self.nulls.text[self.from..];
        let length = end - self.from;
        match rest.first_chunk::<PIECE>() {
            Some(piece) if length <= PIECE => write_piece(piece, length, self.out),
            _ => self.out.extend_from_slice(&rest[..length]),
        }
        self.from = end;
    }
}

impl Visitor for Line<'_> {
    #[inline(always)]
    fn value(&mut self, value: Value<'_>) {
        let column = self.column;
        self.column += 1;
        if let Value::Null = value {
            return;
        }
        self.up_to(self.nulls.values[column]);
        self.from += NULL.len();
        let out = &mut *self.out;
        match value {
            Value::Null => {}
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Int(value) => write_number(value, out),
            // A finite number has a JSON form, and a vector takes it.
            Value::Float(value) => drop(serde_json::to_writer(out, &value)),
            text => {
                out.push(b'"');
                write_text(text, Style::Json, out);
                out.push(b'"');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;
    use firstflight_records::Type;

    fn maybe(name: &'static str, kind: Type) -> Column {
        Column {
            name,
            kind,
            nullable: true,
        }
    }

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
        let place = Place::Shared(Box::new(written.clone()));
        let mut lines = JsonLines::new(place, "k", &columns);
        let row = [
            Value::Text("x\"\n\u{1}"),
            Value::Null,
            Value::Bool(true),
            Value::Float(0.5),
        ];
        lines.write_row(&row[..]).unwrap();
        let row = [Value::Null, Value::Int(-7), Value::Null, Value::Float(3.0)];
        lines.write_row(&row[..]).unwrap();
        lines.write_row(&[Value::Null; 4][..]).unwrap();
        assert!(written.0.lock().unwrap().is_empty());
        lines.flush().unwrap();
        assert_eq!(
            String::from_utf8(written.0.lock().unwrap().clone()).unwrap(),
            "{\"kind\":\"k\",\"a\":\"x\\\"\\n\\u0001\",\"b\":null,\"c\":true,\"d\":0.5}\n\
             {\"kind\":\"k\",\"a\":null,\"b\":-7,\"c\":null,\"d\":3.0}\n\
             {\"kind\":\"k\",\"a\":null,\"b\":null,\"c\":null,\"d\":null}\n"
        );
    }

    #[test]
    fn pieces_of_any_length_are_taken_over() {
        let name = |length: usize| &*"n".repeat(length).leak();
        let columns: Vec<Column> = [1, 48, 49, 50, 60, 61, 62, 300]
            .map(|length| maybe(name(length), Type::I64))
            .into();
        let written = Shared::default();
        let place = Place::Shared(Box::new(written.clone()));
        let mut lines = JsonLines::new(place, "k", &columns);
        for set in 0..256u32 {
            let row: Vec<Value<'_>> = (0..8)
                .map(|i| match set >> i & 1 {
                    1 => Value::Int(i64::from(set)),
                    _ => Value::Null,
                })
                .collect();
            lines.write_row(&row[..]).unwrap();
        }
        lines.flush().unwrap();
        let written = written.0.lock().unwrap();
        for (set, line) in (0..256u32).zip(written.split(|byte| *byte == b'\n')) {
            let mut expected = String::from("{\"kind\":\"k\"");
            for (i, column) in columns.iter().enumerate() {
                let value = (set >> i & 1 == 1).then_some(set);
                let value = value.map_or("null".into(), |set| set.to_string());
                expected += &format!(",\"{}\":{value}", column.name);
            }
            assert_eq!(std::str::from_utf8(line), Ok(&*(expected + "}")));
        }
    }
}
