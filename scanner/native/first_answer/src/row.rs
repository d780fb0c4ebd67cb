//! The columns of a record, once: names, types, order. schemas/records/quic_probe.yaml describes them (`from: prober`); a
//! test compares the two.

use std::borrow::Cow;
use std::slice;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use firstflight_records::{Column, Record, Row as _, Style, Type, Value, Visitor, columns};
use serde::Serialize;

/// Text that mostly exists already.
pub type Text<'a> = Cow<'a, str>;

columns! {
    /// One record.
    #[derive(Debug, Default, Serialize)]
    pub struct Row<'a> {
        /// Line of the target in the input; first column of segments, absent from JSON.
        #[serde(skip)]
        target: u32,
        domain: Text<'a>,
        ip: Text<'a>,
        port: u16,
        outcome: Text<'a>,
        sent_at: Option<i64>,
        src_ip: Option<Text<'a>>,
        src_port: Option<u16>,
        initial_size: Option<u16>,
        version: Option<Text<'a>>,
        client_cid: Option<Text<'a>>,
        attempts: u8,
        retried: bool,
        hello_retry: bool,
        ack_us: Option<i64>,
        sh_us: Option<i64>,
        ack_to_sh_us: Option<i64>,
        sh_to_handshake_us: Option<i64>,
        retry_us: Option<i64>,
        ack_delay_raw: Option<i64>,
        ack_delay_us: Option<i64>,
        ack_datagram_bytes: Option<u16>,
        ack_frames: Option<Text<'a>>,
        ack_eliciting: Option<bool>,
        ack_pn: Option<i64>,
        sh_pn: Option<i64>,
        ack_largest: Option<i64>,
        first_ack_range: Option<i64>,
        gap_before_sh: Option<bool>,
        partial_ack_us: Option<i64>,
        bytes_sent: u32,
        bytes_received: u32,
        datagrams_received: u16,
        amplification: Option<f32>,
        discarded: u16,
        after_close: u16,
        ttl: Option<u8>,
        close_code: Option<i64>,
        server_cid: Option<Text<'a>>,
        close_reason: Option<Text<'a>>,
        version_list: Option<Text<'a>>,
        icmp_type: Option<u8>,
        icmp_code: Option<u8>,
        detail: Option<Text<'a>>,
    }
}

/// Rows on their way to a segment.
pub struct Columns {
    builders: Vec<Builder>,
}

impl Default for Columns {
    fn default() -> Self {
        Columns {
            builders: Row::columns().iter().map(Builder::new).collect(),
        }
    }
}

impl Columns {
    /// Adds a row.
    pub fn push(&mut self, row: &Row<'_>) {
        row.visit(&mut Cells(self.builders.iter_mut()));
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.builders.first().map_or(0, |b| b.array().len())
    }

    /// All rows as a batch; empties the columns.
    pub fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        let columns: Vec<ArrayRef> = self
            .builders
            .iter_mut()
            .map(|b| b.array_mut().finish())
            .collect();
        RecordBatch::try_new(schema, columns)
    }

    /// Names and types of a segment's columns.
    pub fn schema() -> Arc<Schema> {
        let fields = Row::columns();
        let fields = fields
            .iter()
            .map(|c| Field::new(c.name, arrow_type(c.kind), c.nullable));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

fn arrow_type(kind: Type) -> DataType {
    match kind {
        Type::String => DataType::Utf8,
        Type::Bool => DataType::Boolean,
        Type::U8 => DataType::UInt8,
        Type::U16 => DataType::UInt16,
        Type::U32 => DataType::UInt32,
        Type::I64 => DataType::Int64,
        Type::F32 => DataType::Float32,
        Type::F64 => DataType::Float64,
    }
}

/// The cells of one column.
enum Builder {
    Text(StringBuilder),
    Bool(BooleanBuilder),
    U8(PrimitiveBuilder<UInt8Type>),
    U16(PrimitiveBuilder<UInt16Type>),
    U32(PrimitiveBuilder<UInt32Type>),
    I64(PrimitiveBuilder<Int64Type>),
    F32(PrimitiveBuilder<Float32Type>),
    F64(PrimitiveBuilder<Float64Type>),
}

/// Does the same with the builder of any type.
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
        }
    }

    fn array(&self) -> &dyn ArrayBuilder {
        each!(self, builder => builder)
    }

    fn array_mut(&mut self) -> &mut dyn ArrayBuilder {
        each!(self, builder => builder)
    }

    /// Adds a cell. One of another type becomes null, which the batch refuses where null is not allowed.
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
            (builder, _) => each!(builder, to => to.append_null()),
        }
    }
}

/// Distributes the cells of a row to their columns.
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
