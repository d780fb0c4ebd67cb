//! Rows of `quic_ack`. schemas/records/quic_ack.yaml documents the columns.

use firstflight_records::{Column, Record, Row, Visitor, columns};
use firstflight_wire::transport::TransportParameters;

use crate::output::cells::{Cid, Ip, QuicVersion};
use crate::quic::acks::{AckPackets, Side};
use crate::quic::connection::Connection;
use crate::quic::recovery::{AckDelay, Space};
use crate::quic::timeline::CaptureSide;

/// A row: the ACKs of a connection's client or server.
pub struct QuicAckRow<'a> {
    columns: Columns<'a>,
}

type Columns<'a> = (Identity<'a>, Packets, Ratios, Delays, Ranges, Bytes);

impl<'a> QuicAckRow<'a> {
    /// Returns a connection's rows: the client's, then the server's. A side without acknowledgements has no row.
    pub fn of(
        source_file: &'a str,
        c: &'a Connection,
    ) -> impl Iterator<Item = QuicAckRow<'a>> + use<'a> {
        let acks = c.acks.as_deref();
        let client = acks.map(|acks| (CaptureSide::Client, &acks.client));
        let server = acks.map(|acks| (CaptureSide::Server, &acks.server));
        let sides = client.into_iter().chain(server);
        sides
            .filter(|(_, side)| side.acknowledges())
            .map(move |(name, side)| QuicAckRow::new(source_file, c, name, side))
    }

    fn new(source_file: &'a str, c: &'a Connection, name: CaptureSide, side: &Side) -> Self {
        // Without keys, or if the capture is cut, the sent packets are unknown.
        let known = Some(side).filter(|_| c.is_open());
        let is_here = c.timeline.exchange.capture_side() == Some(name);
        let timed = known.filter(|_| is_here);
        QuicAckRow {
            columns: (
                Identity::new(source_file, c, name),
                Packets::new(known, side),
                Ratios::new(known, timed),
                Delays::new(c, name, known, timed),
                Ranges::new(known),
                Bytes::new(known),
            ),
        }
    }
}

impl Row for QuicAckRow<'_> {
    #[inline(always)]
    fn visit(&self, to: &mut impl Visitor) {
        self.columns.visit(to);
    }
}

impl Record for QuicAckRow<'_> {
    fn columns() -> Vec<Column> {
        Columns::columns()
    }
}

columns! {
    /// Identifies the connection and the side.
    struct Identity<'a> {
        source_file: &'a str,
        start_time_ns: i64,
        client_ip: Ip,
        client_port: u16,
        server_ip: Ip,
        server_port: u16,
        version: QuicVersion,
        odcid: Cid,
        client_scid: Cid,
        server_scid: Option<Cid>,
        sni: Option<&'a str>,
        alpn_selected: Option<&'a str>,
        capture_side: Option<&'static str>,
        acks_from: &'static str,
    }
}

impl<'a> Identity<'a> {
    fn new(source_file: &'a str, c: &'a Connection, name: CaptureSide) -> Identity<'a> {
        Identity {
            source_file,
            start_time_ns: c.timeline.start_ns,
            client_ip: Ip(c.client.ip()),
            client_port: c.client.port(),
            server_ip: Ip(c.server.ip()),
            server_port: c.server.port(),
            version: QuicVersion(c.version),
            odcid: Cid(c.odcid),
            client_scid: Cid(c.client_scid),
            server_scid: c.server_scid.map(Cid),
            sni: c.hello.sni.as_deref(),
            alpn_selected: c.server_fields().alpn.as_deref(),
            capture_side: c.timeline.exchange.capture_side().map(CaptureSide::name),
            acks_from: name.name(),
        }
    }
}

columns! {
    /// Packets of the side, and ACK packets.
    struct Packets {
        packets: Option<u64>,
        eliciting_sent: Option<u64>,
        peer_packets: Option<u64>,
        peer_eliciting: Option<u64>,
        peer_eliciting_acked: Option<u64>,
        ack_packets: Option<u64>,
        ack_only_packets: Option<u64>,
        bundled_packets: Option<u64>,
        ack_packets_initial: u64,
        ack_only_packets_initial: u64,
        bundled_packets_initial: u64,
        ack_packets_handshake: Option<u64>,
        ack_only_packets_handshake: Option<u64>,
        bundled_packets_handshake: Option<u64>,
        ack_only_ip_bytes: Option<u64>,
        ack_only_ip_bytes_p50: Option<i64>,
        ack_only_ip_bytes_max: Option<i64>,
        ack_frame_bytes: Option<u64>,
    }
}

impl Packets {
    fn new(known: Option<&Side>, side: &Side) -> Packets {
        let of = |space: Space| known.map(|side| side.ack_packets[space as usize]);
        let bundled = |packets: AckPackets| packets.all - packets.only;
        let initial = side.ack_packets[Space::Initial as usize];
        let (handshake, application) = (of(Space::Handshake), of(Space::Application));
        let [only_p50] = known.map_or([None], |side| side.only_bytes.quantiles([0.5]));
        Packets {
            packets: known.map(|side| side.packets),
            eliciting_sent: known.map(|side| side.eliciting),
            peer_packets: known.map(|side| side.received.packets),
            peer_eliciting: known.map(|side| side.received.eliciting),
            peer_eliciting_acked: known.map(|side| side.received.eliciting_acknowledged),
            ack_packets: application.map(|packets| packets.all),
            ack_only_packets: application.map(|packets| packets.only),
            bundled_packets: application.map(bundled),
            ack_packets_initial: initial.all,
            ack_only_packets_initial: initial.only,
            bundled_packets_initial: bundled(initial),
            ack_packets_handshake: handshake.map(|packets| packets.all),
            ack_only_packets_handshake: handshake.map(|packets| packets.only),
            bundled_packets_handshake: handshake.map(bundled),
            ack_only_ip_bytes: known.map(|side| side.only_bytes_sum),
            ack_only_ip_bytes_p50: only_p50,
            ack_only_ip_bytes_max: known.and_then(|side| side.only_bytes.max()),
            ack_frame_bytes: known.map(|side| side.ack_frame_bytes),
        }
    }
}

columns! {
    /// Packets per acknowledgement, and the reasons for acknowledgements.
    struct Ratios {
        eliciting_per_ack: Option<f64>,
        eliciting_per_ack_p50: Option<i64>,
        eliciting_per_ack_p90: Option<i64>,
        eliciting_per_ack_max: Option<i64>,
        eliciting_per_ack_first100: Option<f64>,
        eliciting_per_ack_after100: Option<f64>,
        acks_by_count: Option<u64>,
        acks_by_timer: Option<u64>,
        acks_by_reordering: Option<u64>,
    }
}

impl Ratios {
    fn new(known: Option<&Side>, timed: Option<&Side>) -> Ratios {
        let [p50, p90] = known.map_or([None; 2], |side| side.per_ack.quantiles([0.5, 0.9]));
        Ratios {
            eliciting_per_ack: known.and_then(|side| side.ratio.share()),
            eliciting_per_ack_p50: p50,
            eliciting_per_ack_p90: p90,
            eliciting_per_ack_max: known.and_then(|side| side.per_ack.max()),
            eliciting_per_ack_first100: known.and_then(|side| side.ratio_first.share()),
            eliciting_per_ack_after100: known.and_then(|side| side.ratio_after.share()),
            acks_by_count: timed.map(|side| side.causes.count),
            acks_by_timer: timed.map(|side| side.causes.timer),
            acks_by_reordering: timed.map(|side| side.causes.reordering),
        }
    }
}

columns! {
    /// Waits of acknowledgements, and the delays that the side reports.
    struct Delays {
        wait_p50_us: Option<i64>,
        wait_p90_us: Option<i64>,
        wait_max_us: Option<i64>,
        waits_over_max_ack_delay: Option<u64>,
        max_ack_delay_us: Option<u64>,
        ack_delay_exponent: Option<u64>,
        delay_field_p50_us: Option<i64>,
        delay_field_max_us: Option<i64>,
    }
}

impl Delays {
    fn new(
        c: &Connection,
        name: CaptureSide,
        known: Option<&Side>,
        timed: Option<&Side>,
    ) -> Delays {
        let waits = timed.map_or([None; 2], |side| side.waits.quantiles([0.5, 0.9]));
        let [wait_p50_us, wait_p90_us] = waits.map(|ns| ns.map(|ns| ns.div_euclid(1000)));
        let [delay_p50] = known.map_or([None], |side| side.delays.quantiles([0.5]));
        let parameters = match name {
            CaptureSide::Client => c.hello.transport_parameters.as_deref(),
            CaptureSide::Server => c.server_fields().transport_parameters.as_deref(),
        };
        let advertised =
            parameters.map(|body| AckDelay::advertised(TransportParameters::new(body)));
        Delays {
            wait_p50_us,
            wait_p90_us,
            wait_max_us: timed
                .and_then(|side| side.waits.max())
                .map(|ns| ns.div_euclid(1000)),
            waits_over_max_ack_delay: timed.map(|side| side.waits_over),
            max_ack_delay_us: advertised.map(|delay| delay.max_ms.saturating_mul(1000)),
            ack_delay_exponent: advertised.map(|delay| delay.exponent),
            delay_field_p50_us: delay_p50,
            delay_field_max_us: known.and_then(|side| side.delays.max()),
        }
    }
}

columns! {
    /// Gaps, ECN, and the requests of the peer.
    struct Ranges {
        ranges_mean: Option<f64>,
        ranges_max: Option<u64>,
        packet_number_gaps: Option<u64>,
        reordered: Option<u64>,
        acked_unseen: Option<u64>,
        ecn_acks: Option<u64>,
        ect0: Option<u64>,
        ect1: Option<u64>,
        ce: Option<u64>,
        ack_frequency_frames: Option<u64>,
        immediate_ack_frames: Option<u64>,
        requested_threshold: Option<u64>,
        requested_max_ack_delay_us: Option<u64>,
        requested_reordering: Option<u64>,
    }
}

impl Ranges {
    fn new(known: Option<&Side>) -> Ranges {
        let ecn = known.and_then(|side| side.ecn);
        let requested = known.and_then(|side| side.requested);
        Ranges {
            ranges_mean: known.and_then(Side::ranges_mean),
            ranges_max: known.and_then(|side| side.ranges_max),
            packet_number_gaps: known.map(|side| side.received.missing()),
            reordered: known.map(|side| side.received.reordered),
            acked_unseen: known.map(|side| side.received.acknowledged_unseen()),
            ecn_acks: known.map(|side| side.ecn_acks),
            ect0: ecn.map(|[ect0, _, _]| ect0),
            ect1: ecn.map(|[_, ect1, _]| ect1),
            ce: ecn.map(|[_, _, ce]| ce),
            ack_frequency_frames: known.map(|side| side.ack_frequency_frames),
            immediate_ack_frames: known.map(|side| side.immediate_ack_frames),
            requested_threshold: requested.map(|requested| requested.threshold),
            requested_max_ack_delay_us: requested.map(|requested| requested.max_ack_delay_us),
            requested_reordering: requested.map(|requested| requested.reordering),
        }
    }
}

columns! {
    /// Bytes of the side's packets, by purpose.
    struct Bytes {
        bytes_headers: Option<u64>,
        bytes_tags: Option<u64>,
        bytes_ack: Option<u64>,
        bytes_crypto: Option<u64>,
        bytes_stream: Option<u64>,
        bytes_padding: Option<u64>,
        bytes_other: Option<u64>,
    }
}

impl Bytes {
    fn new(known: Option<&Side>) -> Bytes {
        let bytes = known.map(|side| side.composition);
        Bytes {
            bytes_headers: bytes.map(|bytes| bytes.headers),
            bytes_tags: bytes.map(|bytes| bytes.tags),
            bytes_ack: bytes.map(|bytes| bytes.ack),
            bytes_crypto: bytes.map(|bytes| bytes.crypto),
            bytes_stream: bytes.map(|bytes| bytes.stream),
            bytes_padding: bytes.map(|bytes| bytes.padding),
            bytes_other: bytes.map(|bytes| bytes.other),
        }
    }
}
