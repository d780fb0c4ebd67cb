//! Arrow columns for rows that `columns!` declares.

use std::slice;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, ListBuilder, PrimitiveBuilder, StringBuilder,
};
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use firstflight_records::{Column, Row, Style, Type, Value, Visitor};

/// Rows collected for a segment.
pub struct ArrowColumns {
    builders: Vec<Builder>,
}

impl ArrowColumns {
    /// Creates empty columns with these names and types.
    pub fn new(columns: &[Column]) -> ArrowColumns {
        ArrowColumns {
            builders: columns.iter().map(Builder::new).collect(),
        }
    }

    /// Returns the names and types of columns as a schema.
    pub fn schema(columns: &[Column]) -> Arc<Schema> {
        let fields = columns
            .iter()
            .map(|c| Field::new(c.name, arrow_type(c.kind), c.nullable));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Adds a row.
    #[inline]
    pub fn push(&mut self, row: &impl Row) {
        row.visit(&mut Cells(self.builders.iter_mut()));
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.builders.first().map_or(0, |b| b.array().len())
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all rows as a batch and empties the columns.
    pub fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        let columns: Vec<ArrayRef> = self
            .builders
            .iter_mut()
            .map(|b| b.array_mut().finish())
            .collect();
        RecordBatch::try_new(schema, columns)
    }
}

fn arrow_type(kind: Type) -> DataType {
    let list = |of| DataType::List(Arc::new(Field::new_list_field(of, true)));
    match kind {
        Type::String => DataType::Utf8,
        Type::Bool => DataType::Boolean,
        Type::U8 => DataType::UInt8,
        Type::U16 => DataType::UInt16,
        Type::U32 => DataType::UInt32,
        Type::I64 => DataType::Int64,
        Type::F32 => DataType::Float32,
        Type::F64 => DataType::Float64,
        Type::Strings => list(DataType::Utf8),
        Type::U32s => list(DataType::UInt32),
    }
}

/// A column's cells.
enum Builder {
    Text(StringBuilder),
    Bool(BooleanBuilder),
    U8(PrimitiveBuilder<UInt8Type>),
    U16(PrimitiveBuilder<UInt16Type>),
    U32(PrimitiveBuilder<UInt32Type>),
    I64(PrimitiveBuilder<Int64Type>),
    F32(PrimitiveBuilder<Float32Type>),
    F64(PrimitiveBuilder<Float64Type>),
    Texts(ListBuilder<StringBuilder>),
    U32s(ListBuilder<PrimitiveBuilder<UInt32Type>>),
}

/// Applies the same expression to a builder of any type.
macro_rules! each {
    ($builder:expr, $name:ident => $do:expr) => {
        match $builder {
            Builder::Text($name) => $do,
            Builder::Bool($name) => $do,
            Builder::U8($name) => $do,
            Builder::U16($name) => $do,
            Builder::U32($name) => $do,
            Builder::I64($name) => $do,
            Builder::F32($name) => $do,
            Builder::F64($name) => $do,
            Builder::Texts($name) => $do,
            Builder::U32s($name) => $do,
        }
    };
}

impl Builder {
    fn new(column: &Column) -> Builder {
        match column.kind {
            Type::String => Builder::Text(StringBuilder::new()),
            Type::Bool => Builder::Bool(BooleanBuilder::new()),
            Type::U8 => Builder::U8(PrimitiveBuilder::new()),
            Type::U16 => Builder::U16(PrimitiveBuilder::new()),
            Type::U32 => Builder::U32(PrimitiveBuilder::new()),
            Type::I64 => Builder::I64(PrimitiveBuilder::new()),
            Type::F32 => Builder::F32(PrimitiveBuilder::new()),
            Type::F64 => Builder::F64(PrimitiveBuilder::new()),
            Type::Strings => Builder::Texts(ListBuilder::new(StringBuilder::new())),
            Type::U32s => Builder::U32s(ListBuilder::new(PrimitiveBuilder::new())),
        }
    }

    fn array(&self) -> &dyn ArrayBuilder {
        each!(self, builder => builder)
    }

    fn array_mut(&mut self) -> &mut dyn ArrayBuilder {
        each!(self, builder => builder)
    }

    /// Adds a cell. A value of another type becomes null, which the batch refuses if the column does not
    /// allow null.
    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Builder::Text(to), Value::Text(text)) => to.append_value(text),
            (Builder::Text(to), Value::Shown(shown)) => {
                let mut text = Vec::new();
                shown.write(Style::Plain, &mut text);
                to.append_value(String::from_utf8_lossy(&text));
            }
            (Builder::Bool(to), Value::Bool(value)) => to.append_value(value),
            // A cell of these columns is an integer of the same type.
            (Builder::U8(to), Value::Int(value)) => to.append_value(value as u8),
            (Builder::U16(to), Value::Int(value)) => to.append_value(value as u16),
            (Builder::U32(to), Value::Int(value)) => to.append_value(value as u32),
            (Builder::I64(to), Value::Int(value)) => to.append_value(value),
            (Builder::F32(to), Value::Float(value)) => to.append_value(value as f32),
            (Builder::F64(to), Value::Float(value)) => to.append_value(value),
            (Builder::Texts(to), Value::Texts(texts)) => {
                for text in texts {
                    to.values().append_value(text);
                }
                to.append(true);
            }
            (Builder::U32s(to), Value::Ints(numbers)) => {
                to.values().append_slice(numbers);
                to.append(true);
            }
            (Builder::Texts(to), _) => to.append(false),
            (Builder::U32s(to), _) => to.append(false),
            (Builder::Text(to), _) => to.append_null(),
            (Builder::Bool(to), _) => to.append_null(),
            (Builder::U8(to), _) => to.append_null(),
            (Builder::U16(to), _) => to.append_null(),
            (Builder::U32(to), _) => to.append_null(),
            (Builder::I64(to), _) => to.append_null(),
            (Builder::F32(to), _) => to.append_null(),
            (Builder::F64(to), _) => to.append_null(),
        }
    }
}

/// Distributes a row's cells to their columns.
struct Cells<'a>(slice::IterMut<'a, Builder>);

impl Visitor for Cells<'_> {
    fn value(&mut self, value: Value<'_>) {
        if let Some(builder) = self.0.next() {
            builder.push(value);
        }
    }
}

#[cfg(test)]
mod tests;
