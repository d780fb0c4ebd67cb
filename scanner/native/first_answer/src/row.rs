//! The columns of a record, once: names, types, order. schemas/records/quic_probe.yaml describes them
//! (`from: prober`); a test compares the two.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use firstflight_core::records::ArrowColumns;
use firstflight_records::{Record, columns};
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
pub struct Columns(ArrowColumns);

impl Default for Columns {
    fn default() -> Self {
        Columns(ArrowColumns::new(&Row::columns()))
    }
}

impl Columns {
    /// Adds a row.
    pub fn push(&mut self, row: &Row<'_>) {
        self.0.push(row);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All rows as a batch; empties the columns.
    pub fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        self.0.finish(schema)
    }

    /// Names and types of a segment's columns.
    pub fn schema() -> Arc<Schema> {
        ArrowColumns::schema(&Row::columns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Int64Type, UInt8Type, UInt32Type};
    use firstflight_records::described;

    #[test]
    fn columns_are_those_of_the_description() {
        let described: Vec<_> = described("quic_probe")
            .unwrap()
            .into_iter()
            .filter(|column| column.from == "prober")
            .map(|column| (column.name, column.kind, column.nullable))
            .collect();
        let ours: Vec<_> = Row::columns()[1..]
            .iter()
            .map(|column| (column.name.into(), column.kind.to_string(), column.nullable))
            .collect();
        assert_eq!(ours, described);
    }

    #[test]
    fn json_has_every_column_with_null_as_null() {
        let row = Row {
            ip: "::1".into(),
            ack_us: Some(7),
            ..Row::default()
        };
        let json: serde_json::Value = serde_json::to_value(&row).unwrap();
        let names: Vec<&str> = Row::columns()[1..].iter().map(|c| c.name).collect();
        let written = serde_json::to_string(&row).unwrap();
        let places: Vec<_> = names
            .iter()
            .map(|name| written.find(&format!("\"{name}\":")))
            .collect();
        assert_eq!(json.as_object().unwrap().len(), names.len());
        assert!(places.iter().all(Option::is_some) && places.is_sorted());
        assert_eq!(
            (&json["ack_us"], &json["sh_us"]),
            (&7.into(), &serde_json::Value::Null)
        );
    }

    #[test]
    fn a_batch_has_the_cells_of_its_rows() {
        let mut columns = Columns::default();
        for target in [2, u32::MAX] {
            columns.push(&Row {
                target,
                ip: "192.0.2.1".into(),
                ack_us: (target == 2).then_some(-1),
                amplification: Some(0.1),
                ttl: Some(255),
                gap_before_sh: Some(true),
                ..Row::default()
            });
        }
        assert_eq!(columns.len(), 2);
        let batch = columns.finish(Columns::schema()).unwrap();
        assert_eq!(columns.len(), 0);
        let column = |name: &str| batch.column_by_name(name).unwrap().clone();
        let targets = column("target");
        assert_eq!(
            targets.as_primitive::<UInt32Type>().values(),
            &[2, u32::MAX]
        );
        let acks = column("ack_us");
        assert_eq!(acks.as_primitive::<Int64Type>().value(0), -1);
        assert!(acks.is_null(1) && !acks.is_null(0));
        let shares = column("amplification");
        assert_eq!(shares.as_primitive::<Float32Type>().values(), &[0.1, 0.1]);
        assert_eq!(column("ttl").as_primitive::<UInt8Type>().value(1), 255);
        assert!(column("gap_before_sh").as_boolean().value(0));
        assert_eq!(column("ip").as_string::<i32>().value(1), "192.0.2.1");
    }
}
