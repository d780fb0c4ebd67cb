//! Rows of `quic_connection`; schemas/records/quic_connection.yaml says what the columns mean.

use super::Type::{Bool, I64, String as Text, U8, U16, U32};
use super::{Column, Value, always, maybe};
use crate::connection::Connection;
use crate::timeline::classify;

/// Columns in the order of [`row`].
pub const COLUMNS: &[Column] = &[
    always("source_file", Text),
    always("start_time_ns", I64),
    always("client_ip", Text),
    always("client_port", U16),
    always("server_ip", Text),
    always("server_port", U16),
    always("version", Text),
    always("odcid", Text),
    always("client_scid", Text),
    maybe("server_scid", Text),
    always("retry", Bool),
    always("hello_retry", Bool),
    maybe("sni", Text),
    maybe("alpn", Text),
    maybe("client_hello_us", I64),
    maybe("first_ack_us", I64),
    maybe("server_hello_us", I64),
    maybe("first_handshake_us", I64),
    maybe("handshake_done_us", I64),
    maybe("first_stream_us", I64),
    always("first_answer", Text),
    maybe("hello_time_ns", I64),
    maybe("ack_us", I64),
    maybe("sh_us", I64),
    maybe("ack_to_sh_us", I64),
    maybe("sh_to_handshake_us", I64),
    maybe("retry_us", I64),
    maybe("partial_ack_us", I64),
    maybe("ack_delay_raw", I64),
    maybe("ack_datagram_bytes", U16),
    maybe("ack_frames", Text),
    maybe("ack_eliciting", Bool),
    maybe("ack_pn", I64),
    maybe("sh_pn", I64),
    maybe("ack_largest", I64),
    maybe("first_ack_range", I64),
    maybe("gap_before_sh", Bool),
    maybe("initial_ack_delay_raw", I64),
    maybe("initial_ack_delay_us", I64),
    maybe("handshake_ack_delay_raw", I64),
    maybe("handshake_ack_delay_us", I64),
    always("client_hello_copies", U16),
    maybe("initial_size", U16),
    always("bytes_sent", U32),
    always("bytes_received", U32),
    always("datagrams_received", U16),
    maybe("ttl", U8),
    maybe("close_code", I64),
    maybe("close_reason", Text),
    maybe("version_list", Text),
    maybe("icmp_type", U8),
    maybe("icmp_code", U8),
    always("packets_client", U32),
    always("packets_server", U32),
    always("datagrams_client", U32),
    always("datagrams_server", U32),
    always("undecrypted_packets", U32),
    maybe("detail", Text),
];

/// Default exponent of ACK Delay (RFC 9000 18.2): what an Initial's or Handshake's field is read with.
const DEFAULT_EXPONENT: u32 = 3;

/// The row of a connection that is over, or no longer listened to.
pub fn row(source_file: &str, c: &Connection) -> Vec<Value> {
    let t = &c.timeline;
    let answer = classify(t);
    let since_start = |time_ns: Option<i64>| time_ns.map(|ns| micros(t.start_ns, ns));
    let since_hello = |time_ns: Option<i64>| Some(micros(answer.hello_ns?, time_ns?));
    let (ack_us, sh_us) = (
        since_hello(answer.ack.map(|a| a.at.ns)),
        since_hello(answer.hello.map(|h| h.at.ns)),
    );
    let handshake_us = since_hello(answer.handshake_ns);
    let ack = answer.ack;
    let scaled = |raw: Option<u64>| raw.and_then(|raw| raw.checked_mul(1 << DEFAULT_EXPONENT));
    vec![
        source_file.into(),
        t.start_ns.into(),
        c.client.ip().to_string().into(),
        c.client.port().into(),
        c.server.ip().to_string().into(),
        c.server.port().into(),
        c.version.to_string().into(),
        c.odcid.to_string().into(),
        c.client_scid.to_string().into(),
        c.server_scid.map(|cid| cid.to_string()).into(),
        t.retry_ns.is_some().into(),
        t.hello_retry.into(),
        c.hello.sni.clone().into(),
        c.hello.alpn.clone().into(),
        since_start(answer.hello_ns).into(),
        since_start(t.first_ack_ns).into(),
        since_start(t.server_hello_ns).into(),
        since_start(t.first_handshake_ns).into(),
        // These two need keys.
        Value::Null,
        Value::Null,
        answer.outcome.name().into(),
        answer.hello_ns.into(),
        ack_us.into(),
        sh_us.into(),
        sh_us.zip(ack_us).map(|(sh, ack)| sh - ack).into(),
        handshake_us
            .zip(sh_us)
            .map(|(handshake, sh)| handshake - sh)
            .into(),
        since_start(t.retry_ns).into(),
        since_hello(answer.partial_ack_ns).into(),
        ack.map(|a| a.delay_raw).into(),
        ack.map(|a| a.datagram_bytes).into(),
        ack.map(|a| a.frames.clone()).into(),
        ack.map(|a| a.eliciting).into(),
        ack.map(|a| a.packet_number).into(),
        answer.hello.map(|h| h.packet_number).into(),
        ack.map(|a| a.largest).into(),
        ack.map(|a| a.first_range).into(),
        answer.gap_before_hello.into(),
        t.initial_ack_delay_raw.into(),
        scaled(t.initial_ack_delay_raw).into(),
        Value::Null,
        Value::Null,
        t.client_hello_copies.into(),
        t.attempt.hello_datagram_bytes.into(),
        t.attempt.bytes_sent.into(),
        t.attempt.bytes_received.into(),
        t.attempt.datagrams_received.into(),
        t.ttl.into(),
        answer.close.map(|close| close.code).into(),
        answer.close.map(|close| close.reason.clone()).into(),
        t.version_list.clone().into(),
        t.icmp.map(|(kind, _)| kind).into(),
        t.icmp.map(|(_, code)| code).into(),
        c.packets.client.into(),
        c.packets.server.into(),
        c.datagrams.client.into(),
        c.datagrams.server.into(),
        c.undecrypted_packets.into(),
        answer.detail.clone().into(),
    ]
}

/// Whole microseconds from `from` to `to`, floored.
fn micros(from: i64, to: i64) -> i64 {
    (to - from).div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use super::micros;

    #[test]
    fn microseconds_are_floored() {
        assert_eq!(
            (micros(0, 1999), micros(0, 2000), micros(500, 0)),
            (1, 2, -1)
        );
    }
}
