//! Parquet files with the columns of a record kind.

use std::fs::File;
use std::io;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use firstflight_records::{Column, Row, Style, Type, Value, Visitor};
use parquet::basic::{
    Compression, ConvertedType, LogicalType, Repetition, Type as Physical, ZstdLevel,
};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type as SchemaType;

use super::text::write_text;

/// Rows that are kept in memory until they are written as a row group; with many long texts, fewer.
const GROUP: usize = 8192;
/// Bytes of text that are kept at most.
const GROUP_TEXT: usize = 1 << 22;

/// A Parquet file that is being written.
pub(super) struct ParquetFile {
    writer: SerializedFileWriter<File>,
    columns: Vec<Cells>,
    rows: usize,
    text_bytes: usize,
}

/// Cells of one column, by the type that Parquet stores them as.
enum Stored {
    /// All texts one after the other, and where each ends.
    Text(Vec<u8>, Vec<usize>),
    Bool(Vec<bool>),
    /// Unsigned columns are stored as their bits (Parquet's INT(n, false)).
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
}

/// Cells of one column that wait to be written.
struct Cells {
    column: Column,
    stored: Stored,
    /// 1 for a cell that is there, 0 for null.
    levels: Vec<i16>,
}

impl ParquetFile {
    /// Begins a file of `columns`; its metadata names the record kind, as files written by the Python stages
    /// do.
    pub(super) fn new(file: File, kind: &str, columns: &[Column]) -> io::Result<ParquetFile> {
        let fields = columns
            .iter()
            .map(|c| field(c).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()
            .map_err(io_error)?;
        let schema = SchemaType::group_type_builder("schema")
            .with_fields(fields)
            .build()
            .map_err(io_error)?;
        let kind = KeyValue::new("firstflight.kind".to_owned(), kind.to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(vec![kind]))
            .build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
            .map_err(io_error)?;
        Ok(ParquetFile {
            writer,
            columns: columns.iter().copied().map(Cells::new).collect(),
            rows: 0,
            text_bytes: 0,
        })
    }

    pub(super) fn write_row(&mut self, row: &(impl Row + ?Sized)) -> io::Result<()> {
        let mut to = RowTaker {
            columns: self.columns.iter_mut(),
            text_bytes: 0,
            wrong: None,
        };
        row.visit(&mut to);
        if let Some(column) = to.wrong.or(to.columns.next().map(|cells| cells.column)) {
            return Err(io::Error::other(format!(
                "column {} must not hold what came for it",
                column.name
            )));
        }
        self.text_bytes += to.text_bytes;
        self.rows += 1;
        if self.rows == GROUP || self.text_bytes > GROUP_TEXT {
            self.write_group()
        } else {
            Ok(())
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write_group()?;
        self.writer.close().map(drop).map_err(io_error)
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        for cells in &mut self.columns {
            let Some(mut writer) = group.next_column().map_err(io_error)? else {
                break;
            };
            cells.write(&mut writer).map_err(io_error)?;
            writer.close().map_err(io_error)?;
        }
        group.close().map_err(io_error)?;
        (self.rows, self.text_bytes) = (0, 0);
        Ok(())
    }
}

/// Deals the cells of a row out to their columns.
struct RowTaker<'a> {
    columns: slice::IterMut<'a, Cells>,
    text_bytes: usize,
    /// The first column that cannot hold what came for it.
    wrong: Option<Column>,
}

impl Visitor for RowTaker<'_> {
    fn value(&mut self, value: Value<'_>) {
        let Some(cells) = self.columns.next() else {
            return;
        };
        match cells.push(value) {
            Some(bytes) => self.text_bytes += bytes,
            None => self.wrong = self.wrong.or(Some(cells.column)),
        }
    }
}

impl Cells {
    fn new(column: Column) -> Cells {
        let stored = match column.kind {
            Type::String => Stored::Text(Vec::new(), Vec::new()),
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

    /// Takes a cell and gives the bytes of its text; `None` if it does not belong here.
    fn push(&mut self, value: Value<'_>) -> Option<usize> {
        if self.column.nullable {
            self.levels.push(i16::from(!matches!(value, Value::Null)));
        }
        match (&mut self.stored, value) {
            (_, Value::Null) if self.column.nullable => {}
            (Stored::Text(bytes, ends), Value::Text(_) | Value::Shown(_)) => {
                let before = bytes.len();
                write_text(value, Style::Plain, bytes);
                ends.push(bytes.len());
                return Some(bytes.len() - before);
            }
            (Stored::Bool(cells), Value::Bool(value)) => cells.push(value),
            (Stored::Int32(cells), Value::Int(value)) => cells.push(value as i32),
            (Stored::Int64(cells), Value::Int(value)) => cells.push(value),
            (Stored::Float(cells), Value::Float(value)) => cells.push(value as f32),
            (Stored::Double(cells), Value::Float(value)) => cells.push(value),
            _ => return None,
        }
        Some(0)
    }

    /// Writes all cells and clears them.
    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.column.nullable.then_some(self.levels.as_slice());
        match &mut self.stored {
            Stored::Text(bytes, ends) => {
                // The next group's texts take about as much room.
                let next = Vec::with_capacity(bytes.len());
                let all = Bytes::from(std::mem::replace(bytes, next));
                let mut start = 0;
                let texts = ends.drain(..).map(|end| {
                    let text = all.slice(start..end);
                    start = end;
                    ByteArray::from(text)
                });
                let texts: Vec<ByteArray> = texts.collect();
                let writer = writer.typed::<ByteArrayType>();
                writer.write_batch(&texts, levels, None)?;
            }
            Stored::Bool(cells) => {
                writer
                    .typed::<BoolType>()
                    .write_batch(cells, levels, None)?;
                cells.clear();
            }
            Stored::Int32(cells) => {
                let writer = writer.typed::<Int32Type>();
                writer.write_batch(cells, levels, None)?;
                cells.clear();
            }
            Stored::Int64(cells) => {
                let writer = writer.typed::<Int64Type>();
                writer.write_batch(cells, levels, None)?;
                cells.clear();
            }
            Stored::Float(cells) => {
                let writer = writer.typed::<FloatType>();
                writer.write_batch(cells, levels, None)?;
                cells.clear();
            }
            Stored::Double(cells) => {
                let writer = writer.typed::<DoubleType>();
                writer.write_batch(cells, levels, None)?;
                cells.clear();
            }
        }
        self.levels.clear();
        Ok(())
    }
}

fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => io::Error::other(cause),
        },
        other => io::Error::other(other),
    }
}

fn field(column: &Column) -> Result<SchemaType, ParquetError> {
    let unsigned = |bit_width| Some(LogicalType::integer(bit_width, false));
    let (physical, logical, converted) = match column.kind {
        Type::String => (
            Physical::BYTE_ARRAY,
            Some(LogicalType::String),
            ConvertedType::UTF8,
        ),
        Type::Bool => (Physical::BOOLEAN, None, ConvertedType::NONE),
        Type::U8 => (Physical::INT32, unsigned(8), ConvertedType::UINT_8),
        Type::U16 => (Physical::INT32, unsigned(16), ConvertedType::UINT_16),
        Type::U32 => (Physical::INT32, unsigned(32), ConvertedType::UINT_32),
        Type::I64 => (Physical::INT64, None, ConvertedType::NONE),
        Type::F32 => (Physical::FLOAT, None, ConvertedType::NONE),
        Type::F64 => (Physical::DOUBLE, None, ConvertedType::NONE),
        Type::Strings | Type::U32s => unreachable!("no kind of the dissector has lists"),
    };
    let repetition = if column.nullable {
        Repetition::OPTIONAL
    } else {
        Repetition::REQUIRED
    };
    SchemaType::primitive_type_builder(column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_converted_type(converted)
        .build()
}

#[cfg(test)]
mod tests;
