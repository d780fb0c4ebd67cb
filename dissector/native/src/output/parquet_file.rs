//! Parquet files with the columns of a record kind.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, LogicalType, Repetition, Type as Physical, ZstdLevel,
};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type as SchemaType;

use super::{Column, Type, Value};

/// Rows that are kept in memory until they are written as a row group.
const GROUP: usize = 65_536;

/// A Parquet file that is being written.
pub(super) struct ParquetFile {
    writer: SerializedFileWriter<File>,
    columns: &'static [Column],
    rows: Vec<Vec<Value>>,
}

impl ParquetFile {
    /// Begins a file of `columns`; its metadata names the record kind, as files written by the Python stages do.
    pub(super) fn new(
        file: File,
        kind: &str,
        columns: &'static [Column],
    ) -> io::Result<ParquetFile> {
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
            columns,
            rows: Vec::new(),
        })
    }

    pub(super) fn write_row(&mut self, row: Vec<Value>) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() == GROUP {
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
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        for (i, column) in self.columns.iter().enumerate() {
            let Some(mut writer) = group.next_column().map_err(io_error)? else {
                break;
            };
            write_column(&mut writer, column, self.rows.iter().map(|row| &row[i]))
                .map_err(io_error)?;
            writer.close().map_err(io_error)?;
        }
        group.close().map_err(io_error)?;
        self.rows.clear();
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
        Type::F64 => (Physical::DOUBLE, None, ConvertedType::NONE),
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

fn write_column<'a>(
    writer: &mut SerializedColumnWriter<'_>,
    column: &Column,
    cells: impl Iterator<Item = &'a Value> + Clone,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = cells
        .clone()
        .map(|cell| i16::from(*cell != Value::Null))
        .collect();
    if !column.nullable && levels.contains(&0) {
        return Err(ParquetError::General(format!(
            "column {} must not be null",
            column.name
        )));
    }
    let levels = column.nullable.then_some(levels.as_slice());
    let integers = cells.clone().filter_map(|cell| {
        if let Value::Int(i) = cell {
            Some(*i)
        } else {
            None
        }
    });
    match column.kind {
        Type::String => {
            let texts: Vec<ByteArray> = cells
                .filter_map(|cell| {
                    if let Value::Text(t) = cell {
                        Some(ByteArray::from(t.as_str()))
                    } else {
                        None
                    }
                })
                .collect();
            writer
                .typed::<ByteArrayType>()
                .write_batch(&texts, levels, None)
        }
        Type::Bool => {
            let flags: Vec<bool> = cells
                .filter_map(|cell| {
                    if let Value::Bool(b) = cell {
                        Some(*b)
                    } else {
                        None
                    }
                })
                .collect();
            writer.typed::<BoolType>().write_batch(&flags, levels, None)
        }
        // Unsigned columns are stored as their bits (Parquet's INT(n, false)).
        Type::U8 | Type::U16 | Type::U32 => {
            let numbers: Vec<i32> = integers.map(|i| i as i32).collect();
            writer
                .typed::<Int32Type>()
                .write_batch(&numbers, levels, None)
        }
        Type::F64 => {
            let numbers: Vec<f64> = cells
                .filter_map(|cell| {
                    if let Value::Float(f) = cell {
                        Some(*f)
                    } else {
                        None
                    }
                })
                .collect();
            writer
                .typed::<DoubleType>()
                .write_batch(&numbers, levels, None)
        }
        Type::I64 => {
            writer
                .typed::<Int64Type>()
                .write_batch(&integers.collect::<Vec<_>>(), levels, None)
        }
    }
    .map(drop)
}
