//! A column's cells in the current row group.

use firstflight_records::{Column, Type, Value};
use parquet::basic::Encoding;
use parquet::file::statistics::Statistics;

use super::delta;
use super::pages::{Chunk, write_bits, write_indices, write_levels};
use super::texts::Texts;

/// A column's cells, by the type that Parquet stores.
pub(super) enum Stored {
    Text(Texts),
    Bool(Vec<u8>),
    /// Unsigned columns are stored as their bits (Parquet's INT(n, false)).
    Int32(Vec<u32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
}

/// A column's cells that are not yet written.
pub(super) struct Cells {
    pub(super) column: Column,
    pub(super) stored: Stored,
    /// 1 for a value, 0 for null.
    pub(super) levels: Vec<u8>,
}

impl Cells {
    pub(super) fn new(column: Column) -> Cells {
        let stored = match column.kind {
            Type::String => Stored::Text(Texts::new()),
            Type::Bool => Stored::Bool(Vec::new()),
            Type::U8 | Type::U16 | Type::U32 => Stored::Int32(Vec::new()),
            Type::I64 => Stored::Int64(Vec::new()),
            Type::F32 => Stored::Float(Vec::new()),
            Type::F64 => Stored::Double(Vec::new()),
            Type::Strings | Type::U32s => unreachable!("no kind of the dissector has lists"),
        };
        Cells {
            column,
            stored,
            levels: Vec::new(),
        }
    }

    /// Adds a cell and returns the size of the text in bytes; `None` if the type is wrong.
    #[inline(always)]
    pub(super) fn push(&mut self, value: Value<'_>) -> Option<usize> {
        if self.column.nullable {
            self.levels.push(u8::from(!matches!(value, Value::Null)));
        }
        match (&mut self.stored, value) {
            (_, Value::Null) if self.column.nullable => {}
            (Stored::Text(texts), Value::Text(text)) => return Some(texts.push(text)),
            (Stored::Text(texts), Value::Shown(shown)) => return Some(texts.push_shown(shown)),
            (Stored::Bool(cells), Value::Bool(value)) => cells.push(u8::from(value)),
            (Stored::Int32(cells), Value::Int(value)) => cells.push(value as u32),
            (Stored::Int64(cells), Value::Int(value)) => cells.push(value),
            (Stored::Float(cells), Value::Float(value)) => cells.push(value as f32),
            (Stored::Double(cells), Value::Float(value)) => cells.push(value),
            _ => return None,
        }
        Some(0)
    }

    /// All cells, encoded. `data` is scratch memory.
    pub(super) fn chunk<'a>(&'a self, rows: usize, data: &'a mut Vec<u8>) -> Chunk<'a> {
        data.clear();
        if self.column.nullable {
            write_levels(&self.levels, data);
        }
        let nulls = self.levels.iter().filter(|level| **level == 0).count() as u64;
        let mut dictionary = None;
        let mut encoding = Encoding::PLAIN;
        let statistics = match &self.stored {
            Stored::Text(texts) => {
                if let Some((distinct @ 1.., indices)) = texts.indices() {
                    dictionary = Some((texts.plain(), distinct));
                    encoding = Encoding::RLE_DICTIONARY;
                    write_indices(indices, distinct, data);
                } else {
                    data.extend_from_slice(texts.plain());
                }
                Statistics::byte_array(None, None, None, Some(nulls), false)
            }
            Stored::Bool(cells) => {
                write_bits(cells, data);
                let cell = |cell: Option<&u8>| cell.map(|cell| *cell == 1);
                let (least, most) = (cell(cells.iter().min()), cell(cells.iter().max()));
                Statistics::boolean(least, most, None, Some(nulls), false)
            }
            Stored::Int32(cells) => {
                plain(cells, u32::to_le_bytes, data);
                let bits = |cell: Option<&u32>| cell.map(|cell| *cell as i32);
                let (least, most) = (bits(cells.iter().min()), bits(cells.iter().max()));
                Statistics::int32(least, most, None, Some(nulls), false)
            }
            Stored::Int64(cells) => {
                if !cells.is_empty() {
                    encoding = Encoding::DELTA_BINARY_PACKED;
                    delta::write(cells, data);
                }
                let (least, most) = (cells.iter().min().copied(), cells.iter().max().copied());
                Statistics::int64(least, most, None, Some(nulls), false)
            }
            Stored::Float(cells) => {
                plain(cells, f32::to_le_bytes, data);
                Statistics::float(None, None, None, Some(nulls), false)
            }
            Stored::Double(cells) => {
                plain(cells, f64::to_le_bytes, data);
                Statistics::double(None, None, None, Some(nulls), false)
            }
        };
        Chunk {
            dictionary,
            data,
            encoding,
            rows,
            statistics,
        }
    }

    /// Starts the next row group.
    pub(super) fn clear(&mut self) {
        self.levels.clear();
        match &mut self.stored {
            Stored::Text(texts) => texts.clear(),
            Stored::Bool(cells) => cells.clear(),
            Stored::Int32(cells) => cells.clear(),
            Stored::Int64(cells) => cells.clear(),
            Stored::Float(cells) => cells.clear(),
            Stored::Double(cells) => cells.clear(),
        }
    }
}

/// Appends numbers, each as its bytes.
fn plain<T: Copy, const N: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; N], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + N * numbers.len(), 0);
    for (to, number) in out[start..].as_chunks_mut::<N>().0.iter_mut().zip(numbers) {
        *to = bytes(*number);
    }
}
