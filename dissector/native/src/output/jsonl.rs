//! JSON lines: all columns, null as null, integers unquoted, the kind first.

use std::io;

use firstflight_records::{Column, Row, Style, Value, Visitor};

use super::text::{write_number, write_piece, write_text};
use super::write_buffer::{Place, WriteBuffer};

/// Bytes that are copied together; most pieces are shorter.
const PIECE: usize = 64;

/// A stream of JSON lines for a record kind. It uses no formatting machinery, because it writes a campaign's rows.
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

    /// Writes a row.
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

    /// Writes the buffered bytes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.buffer.flush()
    }
}

/// The line for a row of nulls. A row is written as pieces of this line, with its values in between.
struct Nulls {
    /// Followed by [`PIECE`] bytes that are never written.
    text: Box<[u8]>,
    length: usize,
    /// Offset of each column's value.
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
    /// Number of columns written.
    column: usize,
    /// Offset up to which the line of nulls is copied.
    from: usize,
}

impl Line<'_> {
    /// Copies the line of nulls up to `end`.
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
            // A finite number has a JSON form, and writing to a vector cannot fail.
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
mod tests;
