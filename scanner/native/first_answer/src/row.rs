//! The columns of a record, once: names, types, order. schemas/records/quic_probe.yaml describes them (`from: prober`); a
//! test compares the two.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{Float32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use serde::Serialize;

/// A Rust type that fills a column.
trait Cell {
    type Builder: ArrayBuilder + Default;
    const TYPE: DataType;
    const NULLABLE: bool;
    fn append(&self, to: &mut Self::Builder);
}

macro_rules! number_cells {
    ($($rust:ty, $arrow:ty, $data:ident;)*) => {$(
        impl Cell for $rust {
            type Builder = PrimitiveBuilder<$arrow>;
            const TYPE: DataType = DataType::$data;
            const NULLABLE: bool = false;
            fn append(&self, to: &mut Self::Builder) {
                to.append_value(*self);
            }
        }
        impl Cell for Option<$rust> {
            type Builder = PrimitiveBuilder<$arrow>;
            const TYPE: DataType = DataType::$data;
            const NULLABLE: bool = true;
            fn append(&self, to: &mut Self::Builder) {
                to.append_option(*self);
            }
        }
    )*};
}

number_cells! {
    u8, UInt8Type, UInt8;
    u16, UInt16Type, UInt16;
    u32, UInt32Type, UInt32;
    i64, Int64Type, Int64;
    f32, Float32Type, Float32;
}

impl Cell for bool {
    type Builder = BooleanBuilder;
    const TYPE: DataType = DataType::Boolean;
    const NULLABLE: bool = false;
    fn append(&self, to: &mut BooleanBuilder) {
        to.append_value(*self);
    }
}

impl Cell for Option<bool> {
    type Builder = BooleanBuilder;
    const TYPE: DataType = DataType::Boolean;
    const NULLABLE: bool = true;
    fn append(&self, to: &mut BooleanBuilder) {
        to.append_option(*self);
    }
}

/// Text that mostly exists already.
pub type Text<'a> = Cow<'a, str>;

impl Cell for Text<'_> {
    type Builder = StringBuilder;
    const TYPE: DataType = DataType::Utf8;
    const NULLABLE: bool = false;
    fn append(&self, to: &mut StringBuilder) {
        to.append_value(self);
    }
}

impl Cell for Option<Text<'_>> {
    type Builder = StringBuilder;
    const TYPE: DataType = DataType::Utf8;
    const NULLABLE: bool = true;
    fn append(&self, to: &mut StringBuilder) {
        to.append_option(self.as_deref());
    }
}

macro_rules! columns {
    ($($name:ident: $type:ty,)*) => {
        /// One record.
        #[derive(Debug, Default, Serialize)]
        pub struct Row<'a> {
            /// Line of the target in the input; first column of segments, absent from JSON.
            #[serde(skip)]
            pub target: u32,
            $(pub $name: $type,)*
        }

        /// Rows on their way to a segment.
        #[derive(Default)]
        pub struct Columns<'a> {
            target: <u32 as Cell>::Builder,
            $($name: <$type as Cell>::Builder,)*
            lifetime: std::marker::PhantomData<&'a ()>,
        }

        impl<'a> Columns<'a> {
            /// Adds a row.
            pub fn push(&mut self, row: &Row<'_>) {
                row.target.append(&mut self.target);
                $(row.$name.append(&mut self.$name);)*
            }

            /// Number of rows.
            pub fn len(&self) -> usize {
                self.target.len()
            }

            /// All rows as a batch; empties the columns.
            pub fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
                let columns: Vec<ArrayRef> = vec![
                    Arc::new(self.target.finish()),
                    $(Arc::new(self.$name.finish()),)*
                ];
                RecordBatch::try_new(schema, columns)
            }

            /// Names and types of a segment's columns.
            pub fn schema() -> Arc<Schema> {
                Arc::new(Schema::new(vec![
                    Field::new("target", DataType::UInt32, false),
                    $(Field::new(stringify!($name), <$type as Cell>::TYPE, <$type as Cell>::NULLABLE),)*
                ]))
            }
        }
    };
}

columns! {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// (name, type, nullable) of the columns that the YAML file says come from the prober.
    fn described() -> Vec<(String, String, bool)> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../schemas/records/quic_probe.yaml"
        );
        let text = std::fs::read_to_string(path).unwrap();
        let value = |line: &str, key: &str| {
            let rest = line.split_once(&format!("{key}: "))?.1;
            Some(rest.split([',', '}']).next()?.to_owned())
        };
        text.lines()
            .filter(|line| value(line, "from").as_deref() == Some("prober"))
            .map(|l| {
                (
                    value(l, "name").unwrap(),
                    value(l, "type").unwrap(),
                    l.contains("nullable: true"),
                )
            })
            .collect()
    }

    #[test]
    fn columns_are_those_of_the_description() {
        let names = |data: &DataType| match data {
            DataType::Utf8 => "string".to_owned(),
            DataType::Boolean => "bool".to_owned(),
            other => other.to_string().to_lowercase(),
        };
        let schema = Columns::schema();
        let ours: Vec<_> = schema.fields()[1..]
            .iter()
            .map(|f| (f.name().clone(), names(f.data_type()), f.is_nullable()))
            .collect();
        assert_eq!(ours, described());
    }

    #[test]
    fn json_has_every_column_with_null_as_null() {
        let row = Row {
            ip: "::1".into(),
            ack_us: Some(7),
            ..Row::default()
        };
        let json: serde_json::Value = serde_json::to_value(&row).unwrap();
        assert_eq!(
            json.as_object().unwrap().len(),
            Columns::schema().fields().len() - 1
        );
        assert_eq!(
            (&json["ack_us"], &json["sh_us"]),
            (&7.into(), &serde_json::Value::Null)
        );
    }
}
