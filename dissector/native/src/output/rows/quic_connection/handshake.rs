//! The negotiated parameters of the handshake, and the bytes before address validation.

use firstflight_records::columns;
use firstflight_wire::transport::TransportParameters;

use super::is_retried;
use crate::output::cells::{Parameters, QuicVersion};
use crate::quic::connection::Connection;
use crate::quic::timeline::CaptureSide;

columns! {
    /// The negotiated parameters.
    pub(super) struct Negotiated<'a> {
        version_used: QuicVersion,
        cipher_suite: Option<&'static str>,
        alpn_selected: Option<&'a str>,
        transport_parameters_client: Option<Parameters<'a>>,
        transport_parameters_server: Option<Parameters<'a>>,
        min_ack_delay_id_client: Option<String>,
        min_ack_delay_us_client: Option<u64>,
        min_ack_delay_id_server: Option<String>,
        min_ack_delay_us_server: Option<u64>,
        certificate_bytes: Option<u64>,
        certificate_message_bytes: Option<u64>,
    }
}

impl<'a> Negotiated<'a> {
    pub(super) fn new(c: &'a Connection) -> Negotiated<'a> {
        let fields = c.server_fields();
        let client = c.hello.transport_parameters.as_deref();
        let server = fields.transport_parameters.as_deref();
        let min_ack_delay =
            |extension: Option<&[u8]>| TransportParameters::new(extension?).min_ack_delay();
        let (of_client, of_server) = (min_ack_delay(client), min_ack_delay(server));
        let code_point = |found: Option<(u64, u64)>| found.map(|(id, _)| format!("{id:#x}"));
        Negotiated {
            version_used: QuicVersion(c.version_in_use),
            cipher_suite: c.cipher_suite().map(|suite| suite.name()),
            alpn_selected: fields.alpn.as_deref(),
            transport_parameters_client: client.map(Parameters),
            transport_parameters_server: server.map(Parameters),
            min_ack_delay_id_client: code_point(of_client),
            min_ack_delay_us_client: of_client.map(|(_, us)| us),
            min_ack_delay_id_server: code_point(of_server),
            min_ack_delay_us_server: of_server.map(|(_, us)| us),
            certificate_bytes: fields.certificate_bytes,
            certificate_message_bytes: fields.certificate_message_bytes,
        }
    }
}

columns! {
    /// Bytes before address validation, the side of the capture, and the client's flights.
    pub(super) struct Validation {
        amplification: Option<f64>,
        unvalidated_bytes_client: Option<u64>,
        unvalidated_bytes_server: Option<u64>,
        capture_side: Option<&'static str>,
        blocked_us: Option<i64>,
        probes: Option<u32>,
        default_pto_us: Option<i64>,
        second_flight_first: Option<u32>,
        second_flight_last: Option<u32>,
    }
}

impl Validation {
    pub(super) fn new(c: &Connection) -> Validation {
        let t = &c.timeline;
        let exchange = &t.exchange;
        // A cut datagram may belong to these flights.
        let flights = Some(&t.flights).filter(|_| !c.is_cut);
        let probes = flights.filter(|flights| !flights.is_scattered);
        // A token validated the address before the first counted byte.
        let is_measured = !is_retried(t) && c.datagrams.server > 0 && exchange.is_sure();
        Validation {
            amplification: exchange.amplification().filter(|_| is_measured),
            unvalidated_bytes_client: is_measured.then_some(exchange.client_bytes),
            unvalidated_bytes_server: is_measured.then_some(exchange.server_bytes),
            capture_side: exchange.capture_side().map(CaptureSide::name),
            blocked_us: blocked_us(c).filter(|_| is_measured),
            probes: probes
                .map(|flights| flights.probes)
                .filter(|_| t.first_ack_ns.is_some() && t.server_hello_ns.is_some()),
            default_pto_us: probes
                .and_then(|flights| flights.default_pto_ns)
                .filter(|_| exchange.capture_side() != Some(CaptureSide::Server))
                .map(|ns| ns.div_euclid(1000)),
            second_flight_first: flights.and_then(|flights| flights.second),
            second_flight_last: flights
                .and_then(|flights| flights.second_end)
                .filter(|_| !c.misses_frames(true)),
        }
    }
}

/// How long the server was blocked; `None` if unknown: without keys, or in a client-side capture without a round-trip
/// time.
fn blocked_us(c: &Connection) -> Option<i64> {
    let path_ns = match c.timeline.exchange.capture_side()? {
        CaptureSide::Server => 0,
        CaptureSide::Client => {
            let rtt = &c.recovery.rtt;
            (rtt.samples > 0).then_some(rtt.min_ns)?
        }
    };
    let blocked_ns = c.is_open().then(|| c.timeline.flights.blocked_ns(path_ns));
    blocked_ns.map(|ns| ns.div_euclid(1000))
}
