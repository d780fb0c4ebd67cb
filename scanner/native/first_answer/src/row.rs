//! A record's columns: names, types and order. schemas/records/quic_probe.yaml describes them (`from: prober`). A
//! test compares the two.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use firstflight_core::records::ArrowColumns;
use firstflight_records::{Record, columns};
use serde::Serialize;

/// Text that most rows borrow.
pub type Text<'a> = Cow<'a, str>;

columns! {
    /// One record.
    #[derive(Debug, Default, Serialize)]
    pub struct ProbeRow<'a> {
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
        version_grease: Option<u16>,
        vn_us: Option<i64>,
        ecn: Option<Text<'a>>,
        ack_ect0: Option<i64>,
        ack_ect1: Option<i64>,
        ack_ce: Option<i64>,
        received_ect0: Option<u16>,
        received_ect1: Option<u16>,
        received_ce: Option<u16>,
        ecn_verdict: Option<Text<'a>>,
        listened_s: Option<f32>,
        retransmissions: Option<u16>,
        retransmission_us: &'a [u32],
        icmp_type: Option<u8>,
        icmp_code: Option<u8>,
        detail: Option<Text<'a>>,
    }
}

/// A segment's columns.
pub struct Columns(ArrowColumns);

impl Default for Columns {
    fn default() -> Self {
        Columns(ArrowColumns::new(&ProbeRow::columns()))
    }
}

impl Columns {
    /// Adds a row.
    pub fn push(&mut self, row: &ProbeRow<'_>) {
        self.0.push(row);
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns all rows as a batch, and empties the columns.
    pub fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        self.0.finish(schema)
    }

    /// Returns the names and types of a segment's columns.
    pub fn schema() -> Arc<Schema> {
        ArrowColumns::schema(&ProbeRow::columns())
    }
}

#[cfg(test)]
mod tests;
