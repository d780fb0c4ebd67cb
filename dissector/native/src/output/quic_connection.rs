//! Rows of `quic_connection`; schemas/records/quic_connection.yaml says what the columns mean.

use firstflight_wire::transport::TransportParameters;

use super::Type::{Bool, F64, I64, String as Text, U8, U16, U32};
use super::row::{Cells, Row, put};
use super::{Column, Value, always, maybe};
use crate::flow::volume::Volume;
use crate::quic::connection::Connection;
use crate::quic::recovery::Sample;
use crate::quic::timeline::{CaptureSide, Timeline, classify};

/// Columns in the order of [`ConnectionRow`].
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
    always("version_used", Text),
    maybe("cipher_suite", Text),
    maybe("alpn_selected", Text),
    maybe("transport_parameters_client", Text),
    maybe("transport_parameters_server", Text),
    maybe("min_ack_delay_id_client", Text),
    maybe("min_ack_delay_us_client", I64),
    maybe("min_ack_delay_id_server", Text),
    maybe("min_ack_delay_us_server", I64),
    maybe("certificate_bytes", I64),
    maybe("certificate_message_bytes", I64),
    maybe("amplification", F64),
    maybe("unvalidated_bytes_client", I64),
    maybe("unvalidated_bytes_server", I64),
    maybe("capture_side", Text),
    maybe("rtt_samples", U32),
    maybe("rtt_min_us", I64),
    maybe("rtt_smoothed_us", I64),
    maybe("rtt_variation_us", I64),
    maybe("rtt_series_at_us", Text),
    maybe("rtt_series_us", Text),
    maybe("pto_series_us", Text),
    maybe("spurious_retransmissions_client", U32),
    maybe("spurious_retransmissions_server", U32),
    maybe("ip_bytes_client", I64),
    maybe("ip_bytes_server", I64),
    maybe("ip_length_guessed", Bool),
    maybe("payload_bytes_client", I64),
    maybe("payload_bytes_server", I64),
    maybe("duration_us", I64),
    maybe("anrw_throughput_bps", I64),
    maybe("anrw_goodput_bps", I64),
    maybe("download_throughput_bps", I64),
    maybe("upload_throughput_bps", I64),
    maybe("application_goodput_bps", I64),
    maybe("retransmitted_bytes_client", I64),
    maybe("retransmitted_bytes_server", I64),
    maybe("retransmission_rate", F64),
    maybe("key_updates_client", I64),
    maybe("key_updates_server", I64),
    always("paths", U16),
    maybe("migrations", U32),
    maybe("closed_us", I64),
    maybe("closed_by", Text),
    maybe("closed_by_application", Bool),
    maybe("closed_code", I64),
    maybe("closed_reason", Text),
    maybe("detail", Text),
];

/// Default exponent of ACK Delay (RFC 9000 18.2): what an Initial's or Handshake's field is read with.
const DEFAULT_EXPONENT: u32 = 3;

/// The row of a connection that is over, or no longer listened to.
pub struct ConnectionRow<'a> {
    pub source_file: &'a str,
    pub connection: &'a Connection,
}

impl Row for ConnectionRow<'_> {
    fn cells(&self, to: &mut impl Cells) {
        let c = self.connection;
        to.put(self.source_file);
        first_answer(c, to);
        negotiated(c, to);
        path(c, to);
        recovery(c, to);
        throughput(c, to);
        keys_paths_close(c, to);
        to.put(classify(&c.timeline).detail);
    }
}

/// `start_time_ns` to `undecrypted_packets`.
fn first_answer(c: &Connection, to: &mut impl Cells) {
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
    put!(
        to,
        t.start_ns,
        c.client.ip(),
        c.client.port(),
        c.server.ip(),
        c.server.port(),
        c.version,
        c.odcid,
        c.client_scid,
        c.server_scid,
        is_retried(t),
        t.hello_retry,
        c.hello.sni.as_deref(),
        c.hello.alpn.as_deref(),
        since_start(answer.hello_ns),
        since_start(t.first_ack_ns),
        since_start(t.server_hello_ns),
        since_start(t.first_handshake_ns),
        since_start(t.handshake_done_ns),
        since_start(t.first_stream_ns),
        answer.outcome.name(),
        answer.hello_ns,
        ack_us,
        sh_us,
        sh_us.zip(ack_us).map(|(sh, ack)| sh - ack),
        handshake_us
            .zip(sh_us)
            .map(|(handshake, sh)| handshake - sh),
        since_start(t.retry_ns),
        since_hello(answer.partial_ack_ns),
        ack.map(|a| a.delay_raw),
        ack.map(|a| a.datagram_bytes),
        ack.map(|a| &*a.frames),
        ack.map(|a| a.eliciting),
        ack.map(|a| a.packet_number),
        answer.hello.map(|h| h.packet_number),
        ack.map(|a| a.largest),
        ack.map(|a| a.first_range),
        answer.gap_before_hello,
        t.initial_ack_delay_raw,
        scaled(t.initial_ack_delay_raw),
        t.handshake_ack_delay_raw,
        scaled(t.handshake_ack_delay_raw),
        t.client_hello_copies,
        t.attempt.hello_datagram_bytes,
        t.attempt.bytes_sent,
        t.attempt.bytes_received,
        t.attempt.datagrams_received,
        t.ttl,
        answer.close.map(|close| close.code),
        answer.close.map(|close| close.reason.as_str()),
        t.version_list.as_deref(),
        t.icmp.map(|(kind, _)| kind),
        t.icmp.map(|(_, code)| code),
        c.packets.client,
        c.packets.server,
        c.datagrams.client,
        c.datagrams.server,
        c.undecrypted_packets,
    );
}

/// What both sides agreed on: `version_used` to `certificate_message_bytes`.
fn negotiated(c: &Connection, to: &mut impl Cells) {
    let fields = &c.server_fields;
    let client = c.hello.transport_parameters.as_deref();
    let server = fields.transport_parameters.as_deref();
    let min_ack_delay =
        |extension: Option<&[u8]>| TransportParameters::new(extension?).min_ack_delay();
    let (of_client, of_server) = (min_ack_delay(client), min_ack_delay(server));
    let code_point = |found: Option<(u64, u64)>| found.map(|(id, _)| format!("{id:#x}"));
    put!(
        to,
        c.version_in_use,
        c.cipher_suite().map(|suite| suite.name()),
        fields.alpn.as_deref(),
        client.map(Value::Parameters),
        server.map(Value::Parameters),
        code_point(of_client),
        of_client.map(|(_, us)| us),
        code_point(of_server),
        of_server.map(|(_, us)| us),
        fields.certificate_bytes,
        fields.certificate_message_bytes,
    );
}

/// `amplification` to `capture_side`.
fn path(c: &Connection, to: &mut impl Cells) {
    let exchange = &c.timeline.exchange;
    // A token validated the address before the first byte that counts.
    let is_measured = !is_retried(&c.timeline) && c.datagrams.server > 0 && exchange.is_sure();
    put!(
        to,
        exchange.amplification().filter(|_| is_measured),
        is_measured.then_some(exchange.client_bytes),
        is_measured.then_some(exchange.server_bytes),
        exchange.capture_side().map(CaptureSide::name),
    );
}

/// `rtt_samples` to `spurious_retransmissions_server`.
fn recovery(c: &Connection, to: &mut impl Cells) {
    let r = &c.recovery;
    let is_client = c.timeline.exchange.capture_side() == Some(CaptureSide::Client);
    let rtt = Some(&r.rtt).filter(|rtt| is_client && rtt.samples > 0);
    let start_ns = c.timeline.start_ns;
    let series = |of: &dyn Fn(&Sample) -> i64| {
        rtt.map(|_| Value::Integers(r.samples.iter().map(of).collect()))
    };
    // Without keys or one direction, nobody knows what was sent or arrived.
    let is_whole = c.is_open() && c.packets.client > 0 && c.packets.server > 0;
    let (client, server) = is_whole.then(|| r.spurious()).unzip();
    put!(
        to,
        rtt.map(|rtt| rtt.samples),
        rtt.map(|rtt| rtt.min_ns.div_euclid(1000)),
        rtt.map(|rtt| rtt.smoothed_ns.div_euclid(1000)),
        rtt.map(|rtt| rtt.variation_ns.div_euclid(1000)),
        series(&|sample| micros(start_ns, sample.ns)),
        series(&|sample| micros(0, sample.rtt_ns)),
        series(&|sample| micros(0, sample.pto_ns)),
        client,
        server,
    );
}

/// `ip_bytes_client` to `retransmission_rate`.
fn throughput(c: &Connection, to: &mut impl Cells) {
    let volume = &c.volume;
    // Without keys nobody knows what is payload, and what was sent before.
    let known = Some(volume).filter(|_| c.is_open());
    put!(
        to,
        volume.client.ip_bytes,
        volume.server.ip_bytes,
        volume.is_guessed,
        known.map(|v| v.client.payload_bytes),
        known.map(|v| v.server.payload_bytes),
        micros(volume.start_ns, volume.last_ns),
        volume.anrw_throughput_bps(),
        known.and_then(Volume::anrw_goodput_bps),
        known.and_then(Volume::download_throughput_bps),
        known.and_then(Volume::upload_throughput_bps),
        known.and_then(Volume::application_goodput_bps),
        known.map(|v| v.client.ip_bytes_again),
        known.map(|v| v.server.ip_bytes_again),
        known.and_then(Volume::retransmission_rate),
    );
}

/// `key_updates_client` to `closed_reason`.
fn keys_paths_close(c: &Connection, to: &mut impl Cells) {
    let (client, server) = c.key_updates();
    let closing = c.closing.as_deref();
    put!(
        to,
        c.has_keys().then_some(client),
        c.has_keys().then_some(server),
        u16::try_from(c.path_count()).unwrap_or(u16::MAX),
        c.migrations(),
        closing.map(|close| micros(c.timeline.start_ns, close.ns)),
        closing.map(|close| if close.by_client { "client" } else { "server" }),
        closing.map(|close| close.by_application),
        closing.map(|close| close.code),
        closing.map(|close| close.reason.as_str()),
    );
}

fn is_retried(t: &Timeline) -> bool {
    t.retry_ns.is_some() || t.retry_missed
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
