//! The first answer and the times.

use firstflight_records::columns;

use super::micros;
use crate::quic::connection::Connection;
use crate::quic::timeline::ClassifiedAnswer;

/// Default exponent of ACK Delay (RFC 9000 18.2), which applies in Initial and Handshake packets.
const DEFAULT_EXPONENT: u32 = 3;

columns! {
    /// Times of the handshake's messages, the first answer and its parts.
    pub(super) struct FirstAnswer<'a> {
        client_hello_us: Option<i64>,
        first_ack_us: Option<i64>,
        server_hello_us: Option<i64>,
        first_handshake_us: Option<i64>,
        handshake_done_us: Option<i64>,
        first_stream_us: Option<i64>,
        first_request_stream_us: Option<i64>,
        first_answer: &'static str,
        hello_time_ns: Option<i64>,
        ack_us: Option<i64>,
        sh_us: Option<i64>,
        ack_to_sh_us: Option<i64>,
        sh_to_handshake_us: Option<i64>,
        retry_us: Option<i64>,
        partial_ack_us: Option<i64>,
        ack_delay_raw: Option<u64>,
        ack_datagram_bytes: Option<u16>,
        ack_frames: Option<&'a str>,
        ack_eliciting: Option<bool>,
        ack_pn: Option<u64>,
        sh_pn: Option<u64>,
        ack_largest: Option<u64>,
        first_ack_range: Option<u64>,
        gap_before_sh: Option<bool>,
        initial_ack_delay_raw: Option<u64>,
        initial_ack_delay_us: Option<u64>,
        handshake_ack_delay_raw: Option<u64>,
        handshake_ack_delay_us: Option<u64>,
        client_hello_copies: u16,
        initial_size: Option<u16>,
        bytes_sent: u32,
        bytes_received: u32,
        datagrams_received: u16,
        ttl: Option<u8>,
        close_code: Option<u64>,
        close_reason: Option<&'a str>,
        version_list: Option<&'a str>,
        icmp_type: Option<u8>,
        icmp_code: Option<u8>,
        packets_client: u32,
        packets_server: u32,
        datagrams_client: u32,
        datagrams_server: u32,
        undecrypted_packets: u32,
        packets_not_understood: Option<u32>,
    }
}

impl<'a> FirstAnswer<'a> {
    /// `answer` is the first answer of the connection's timeline.
    pub(super) fn new(c: &'a Connection, answer: &ClassifiedAnswer<'a>) -> FirstAnswer<'a> {
        let t = &c.timeline;
        let protected = t.protected();
        let since_start = |time_ns: Option<i64>| time_ns.map(|ns| micros(t.start_ns, ns));
        let since_hello = |time_ns: Option<i64>| Some(micros(answer.hello_ns?, time_ns?));
        let (ack_us, sh_us) = (
            since_hello(answer.ack.map(|a| a.at.ns)),
            since_hello(answer.hello.map(|h| h.at.ns)),
        );
        let handshake_us = since_hello(answer.handshake_ns);
        let ack = answer.ack;
        let scaled = |raw: Option<u64>| raw.and_then(|raw| raw.checked_mul(1 << DEFAULT_EXPONENT));
        FirstAnswer {
            client_hello_us: since_start(answer.hello_ns),
            first_ack_us: since_start(t.first_ack_ns),
            server_hello_us: since_start(t.server_hello_ns),
            first_handshake_us: since_start(t.first_handshake_ns),
            handshake_done_us: since_start(protected.handshake_done_ns),
            first_stream_us: since_start(protected.first_stream_ns),
            first_request_stream_us: since_start(protected.first_request_stream_ns),
            first_answer: answer.outcome.name(),
            hello_time_ns: answer.hello_ns,
            ack_us,
            sh_us,
            ack_to_sh_us: sh_us.zip(ack_us).map(|(sh, ack)| sh - ack),
            sh_to_handshake_us: handshake_us
                .zip(sh_us)
                .map(|(handshake, sh)| handshake - sh),
            retry_us: since_start(t.retry_ns),
            partial_ack_us: answer.partial_ack.map(|(ns, sent_ns)| micros(sent_ns, ns)),
            ack_delay_raw: ack.map(|a| a.delay_raw),
            ack_datagram_bytes: ack.map(|a| a.datagram_bytes),
            ack_frames: ack.map(|a| &*a.frames),
            ack_eliciting: ack.map(|a| a.eliciting),
            ack_pn: ack.map(|a| a.packet_number),
            sh_pn: answer.hello.map(|h| h.packet_number),
            ack_largest: ack.map(|a| a.largest),
            first_ack_range: ack.map(|a| a.first_range),
            gap_before_sh: answer.gap_before_hello,
            initial_ack_delay_raw: t.initial_ack_delay_raw,
            initial_ack_delay_us: scaled(t.initial_ack_delay_raw),
            handshake_ack_delay_raw: protected.handshake_ack_delay_raw,
            handshake_ack_delay_us: scaled(protected.handshake_ack_delay_raw),
            client_hello_copies: t.client_hello_copies,
            initial_size: t.attempt.hello_datagram_bytes,
            bytes_sent: t.attempt.bytes_sent,
            bytes_received: t.attempt.bytes_received,
            datagrams_received: t.attempt.datagrams_received,
            ttl: t.ttl,
            close_code: answer.close.map(|close| close.code),
            close_reason: answer.close.map(|close| close.reason.as_str()),
            version_list: t.version_list.as_deref(),
            icmp_type: t.icmp.map(|(kind, _)| kind),
            icmp_code: t.icmp.map(|(_, code)| code),
            packets_client: c.packets.client,
            packets_server: c.packets.server,
            datagrams_client: c.datagrams.client,
            datagrams_server: c.datagrams.server,
            undecrypted_packets: c.undecrypted_packets,
            packets_not_understood: Some(protected.not_understood),
        }
    }
}
