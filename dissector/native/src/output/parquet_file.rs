//! Parquet files with a record kind's columns.

mod column;
mod delta;
mod pages;
mod texts;

use std::fs::File;
use std::io;
use std::slice;
use std::sync::Arc;

use firstflight_records::{Column, Row, Type, Value, Visitor};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type as SchemaType;

use self::column::Cells;
use self::pages::{Pages, compression};

/// Maximum number of rows per row group; a group with long texts has fewer.
const GROUP: usize = 8192;
/// Maximum number of text bytes per row group.
const GROUP_TEXT: usize = 1 << 22;

/// A Parquet file that is being written.
pub(super) struct ParquetFile {
    writer: SerializedFileWriter<File>,
    columns: Vec<Cells>,
    pages: Pages,
    /// Scratch memory for a page.
    data: Vec<u8>,
    rows: usize,
    text_bytes: usize,
}

impl ParquetFile {
    /// Starts a file with `columns`. Its metadata names the record kind, as in files of the Python stages.
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
            .set_compression(compression())
            .set_key_value_metadata(Some(vec![kind]))
            .build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
            .map_err(io_error)?;
        Ok(ParquetFile {
            writer,
            columns: columns.iter().copied().map(Cells::new).collect(),
            pages: Pages::new()?,
            data: Vec::new(),
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
                "column {} got no value of its type",
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
        let columns = self.writer.schema_descr().columns().to_vec();
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        for (cells, column) in self.columns.iter_mut().zip(columns) {
            let chunk = cells.chunk(self.rows, &mut self.data);
            let (bytes, closed) = self.pages.chunk(column, chunk).map_err(io_error)?;
            group.append_column(&bytes, closed).map_err(io_error)?;
            cells.clear();
        }
        group.close().map_err(io_error)?;
        (self.rows, self.text_bytes) = (0, 0);
        Ok(())
    }
}

/// Distributes a row's cells to their columns.
struct RowTaker<'a> {
    columns: slice::IterMut<'a, Cells>,
    text_bytes: usize,
    /// The first column that cannot store the cell.
    wrong: Option<Column>,
}

impl Visitor for RowTaker<'_> {
    #[inline(always)]
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
