//! Rows for a Parquet file that wait until the rows of earlier captures are written.

use std::io::{self, BufRead, BufReader, Read};

use firstflight_records::{Row, Style, Value, Visitor};

use super::text::write_text;
use super::write_buffer::{Place, WriteBuffer};

/// Rows for a kind, in order, each with the length in front.
pub(super) struct Deferred {
    buffer: WriteBuffer,
}

impl Deferred {
    pub(super) fn new() -> Deferred {
        Deferred {
            buffer: WriteBuffer::new(Place::Aside(None)),
        }
    }

    pub(super) fn write_row(&mut self, row: &(impl Row + ?Sized)) -> io::Result<()> {
        let out = &mut self.buffer.bytes;
        let start = out.len();
        out.extend([0; 4]);
        row.visit(&mut Encoder { out });
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.buffer.settle()
    }

    /// Passes every row to `write`.
    pub(super) fn replay(
        self,
        write: impl FnMut(&EncodedRow<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        replay(self.buffer.into_reader()?, write)
    }
}

fn replay(
    rows: impl Read,
    mut write: impl FnMut(&EncodedRow<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut rows = BufReader::with_capacity(1 << 16, rows);
    let mut row = Vec::new();
    let mut length = [0; 4];
    while !rows.fill_buf()?.is_empty() {
        rows.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        row.clear();
        rows.by_ref().take(length.into()).read_to_end(&mut row)?;
        write(&EncodedRow(&row))?;
    }
    Ok(())
}

struct Encoder<'a> {
    out: &'a mut Vec<u8>,
}

impl Visitor for Encoder<'_> {
    fn value(&mut self, value: Value<'_>) {
        let out = &mut *self.out;
        match value {
            Value::Null => out.push(0),
            Value::Bool(b) => out.extend([1, u8::from(b)]),
            Value::Int(i) => {
                out.push(2);
                out.extend(i.to_le_bytes());
            }
            Value::Float(f) => {
                out.push(3);
                out.extend(f.to_le_bytes());
            }
            text => {
                out.push(4);
                let start = out.len();
                out.extend([0; 4]);
                write_text(text, Style::Plain, out);
                let length = (out.len() - start - 4) as u32;
                out[start..start + 4].copy_from_slice(&length.to_le_bytes());
            }
        }
    }
}

/// A row as it was stored.
pub(super) struct EncodedRow<'a>(&'a [u8]);

impl Row for EncodedRow<'_> {
    /// A damaged row lacks cells, and the Parquet file refuses it.
    fn visit(&self, to: &mut impl Visitor) {
        let mut rest = self.0;
        while let Some(value) = decode(&mut rest) {
            to.value(value);
        }
    }
}

fn decode<'a>(rest: &mut &'a [u8]) -> Option<Value<'a>> {
    Some(match rest.split_off_first()? {
        0 => Value::Null,
        1 => Value::Bool(*rest.split_off_first()? == 1),
        2 => Value::Int(i64::from_le_bytes(array(rest)?)),
        3 => Value::Float(f64::from_le_bytes(array(rest)?)),
        4 => {
            let length = u32::from_le_bytes(array(rest)?);
            let text = rest.split_off(..usize::try_from(length).ok()?)?;
            Value::Text(std::str::from_utf8(text).ok()?)
        }
        _ => return None,
    })
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    rest.split_off(..N)?.try_into().ok()
}

#[cfg(test)]
mod tests;
