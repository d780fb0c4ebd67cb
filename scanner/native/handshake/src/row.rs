//! The columns in a handshake's record: names, types and order. schemas/records/quic_handshake.yaml describes them
//! (`from: handshake`). A test compares the two.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use firstflight_core::records::{self, ArrowColumns};
use firstflight_records::{Record, columns};
use serde::Serialize;

/// Text that most rows borrow.
pub type Text<'a> = Cow<'a, str>;

columns! {
    /// One record.
    #[derive(Debug, Default, Serialize)]
    pub struct HandshakeRow<'a> {
        /// Line of the target in the input; first column of segments, absent from JSON.
        #[serde(skip)]
        target: u32,
        domain: Text<'a>,
        ip: Text<'a>,
        port: u16,
        cdn_by_header: Option<Text<'a>>,
        cdn_by_certificate: Option<Text<'a>>,
        outcome: Text<'a>,
        stage: Option<Text<'a>>,
        detail: Option<Text<'a>>,
        alert: Option<u8>,
        alert_by: Option<Text<'a>>,
        close_code: Option<i64>,
        close_by_application: Option<bool>,
        close_reason: Option<Text<'a>>,
        sent_at: Option<i64>,
        src_ip: Option<Text<'a>>,
        src_port: Option<u16>,
        client_cid: Option<Text<'a>>,
        server_cid: Option<Text<'a>>,
        sni: Option<bool>,
        hello_datagrams: Option<u8>,
        version: Option<Text<'a>>,
        version_list: Option<Text<'a>>,
        versions_offered: Option<Text<'a>>,
        versions_available: Option<Text<'a>>,
        version_change: Option<Text<'a>>,
        retry: bool,
        hello_retry: bool,
        first_answer: Option<Text<'a>>,
        partial_ack_us: Option<i64>,
        first_ack_datagrams: Option<Text<'a>>,
        ack_covers_hello: Option<bool>,
        first_answer_any_ack: Option<Text<'a>>,
        ack_us: Option<i64>,
        sh_us: Option<i64>,
        ack_to_sh_us: Option<i64>,
        certificate_us: Option<i64>,
        handshake_us: Option<i64>,
        confirmed_us: Option<i64>,
        settings_us: Option<i64>,
        response_us: Option<i64>,
        rtt_first_us: Option<i64>,
        rtt_min_us: Option<i64>,
        rtt_samples: u16,
        bytes_sent: u32,
        bytes_received: u32,
        datagrams_sent: u16,
        datagrams_received: u16,
        bytes_first_flight: u32,
        datagrams_first_flight: u16,
        bytes_sent_unvalidated: u32,
        bytes_received_unvalidated: u32,
        bytes_received_handshake: Option<u32>,
        retransmissions: u16,
        discarded: u16,
        after_close: u16,
        ttl: Option<u8>,
        transport_parameters: Option<Text<'a>>,
        min_ack_delay_us: Option<i64>,
        min_ack_delay_id: Option<Text<'a>>,
        max_datagram_frame_size: Option<i64>,
        multipath_id: Option<Text<'a>>,
        multipath_value: Option<i64>,
        migration_disabled: Option<bool>,
        preferred_address: Option<bool>,
        stack: Option<Text<'a>>,
        stack_fingerprint: Option<Text<'a>>,
        cipher: Option<Text<'a>>,
        group: Option<Text<'a>>,
        alpn: Option<Text<'a>>,
        ech_offered: Option<Text<'a>>,
        ech_accepted: Option<bool>,
        ech_retry_config_ids: &'a [u32],
        ech_retry_public_names: &'a [String],
        tickets: Option<u16>,
        early_data: Option<bool>,
        tokens: Option<u16>,
        certificate_compression: Option<Text<'a>>,
        certificate_bytes: Option<u32>,
        certificate_uncompressed_bytes: Option<u32>,
        chain_sha256: Option<Text<'a>>,
        leaf_sha256: Option<Text<'a>>,
        chain_length: Option<u8>,
        ocsp_stapled: Option<bool>,
        signature_valid: Option<bool>,
        verified: Option<bool>,
        verify_error: Option<Text<'a>>,
        name_matches: Option<bool>,
        http: Option<Text<'a>>,
        status: Option<u16>,
        server_header: Option<Text<'a>>,
        edge_location: Option<Text<'a>>,
        icmp_type: Option<u8>,
        icmp_code: Option<u8>,
        second_outcome: Option<Text<'a>>,
        second_stage: Option<Text<'a>>,
        second_detail: Option<Text<'a>>,
        second_sent_at: Option<i64>,
        second_ticket: Option<bool>,
        second_resumed: Option<bool>,
        second_early_data: Option<Text<'a>>,
        second_token: Option<bool>,
        second_token_honoured: Option<bool>,
        second_retry: Option<bool>,
        second_first_answer: Option<Text<'a>>,
        second_ack_us: Option<i64>,
        second_sh_us: Option<i64>,
        second_handshake_us: Option<i64>,
        second_confirmed_us: Option<i64>,
        second_response_us: Option<i64>,
        second_rtt_first_us: Option<i64>,
        second_bytes_sent: Option<u32>,
        second_bytes_received: Option<u32>,
        second_datagrams_sent: Option<u16>,
        second_datagrams_received: Option<u16>,
        second_bytes_sent_unvalidated: Option<u32>,
        second_bytes_received_unvalidated: Option<u32>,
        second_http: Option<Text<'a>>,
        second_status: Option<u16>,
    }
}

columns! {
    /// A certificate, once per run (schemas/records/certificate.yaml).
    #[derive(Debug, Default, Serialize)]
    pub struct CertificateRow<'a> {
        sha256: Text<'a>,
        position: u8,
        issuer_sha256: Option<Text<'a>>,
        subject: Text<'a>,
        issuer: Text<'a>,
        sans: Text<'a>,
        serial: Text<'a>,
        key_algorithm: Text<'a>,
        key_bits: Option<u16>,
        signature_algorithm: Text<'a>,
        is_ca: bool,
        scts: Option<u8>,
        der_bytes: u32,
        not_before: Option<i64>,
        not_after: Option<i64>,
        error: Option<Text<'a>>,
    }
}

columns! {
    /// The HTTP/3 response from a server (schemas/records/http3_response.yaml).
    #[derive(Debug, Default, Serialize)]
    pub struct ResponseRow<'a> {
        domain: Text<'a>,
        ip: Text<'a>,
        port: u16,
        sent_at: Option<i64>,
        status: Option<u16>,
        headers: Text<'a>,
        header_bytes: u32,
        server: Option<Text<'a>>,
        alt_svc: Option<Text<'a>>,
        via: Option<Text<'a>>,
        location: Option<Text<'a>>,
        cf_ray: Option<Text<'a>>,
        x_amz_cf_pop: Option<Text<'a>>,
        x_cache: Option<Text<'a>>,
        x_served_by: Option<Text<'a>>,
        age: Option<Text<'a>>,
        settings: Option<Text<'a>>,
        qpack_max_table_capacity: Option<i64>,
        qpack_blocked_streams: Option<i64>,
        max_field_section_size: Option<i64>,
        goaway: bool,
    }
}

/// Declares a row type's segment columns.
macro_rules! segment_columns {
    ($(#[$about:meta])* $name:ident of $row:ident) => {
        $(#[$about])*
        pub struct $name(ArrowColumns);

        impl Default for $name {
            fn default() -> Self {
                $name(ArrowColumns::new(&$row::columns()))
            }
        }

        impl records::Columns for $name {
            // Texts of servers have no fixed size.
            const MOST_ROWS: usize = 8_192;

            type Row<'a> = $row<'a>;

            fn schema() -> Arc<Schema> {
                ArrowColumns::schema(&$row::columns())
            }

            fn push(&mut self, row: &$row<'_>) {
                self.0.push(row);
            }

            fn len(&self) -> usize {
                self.0.len()
            }

            fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
                self.0.finish(schema)
            }
        }
    };
}

segment_columns! {
    /// Handshakes.
    Columns of HandshakeRow
}
segment_columns! {
    /// Certificates.
    CertificateColumns of CertificateRow
}
segment_columns! {
    /// Responses.
    ResponseColumns of ResponseRow
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_records::difference;

    #[test]
    fn the_columns_are_those_of_the_kinds() {
        for (kind, columns) in [
            ("quic_handshake", &HandshakeRow::columns()[1..]),
            ("certificate", &CertificateRow::columns()),
            ("http3_response", &ResponseRow::columns()),
        ] {
            assert_eq!(difference(kind, &["handshake"], columns), None, "{kind}");
        }
    }
}
