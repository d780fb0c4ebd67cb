//! A connection's round trips, bytes and rates, and its close.

use firstflight_records::columns;

use super::micros;
use crate::flow::volume::Volume;
use crate::output::cells::Integers;
use crate::quic::connection::Connection;
use crate::quic::recovery::Sample;
use crate::quic::timeline::CaptureSide;

columns! {
    /// Round trips as the client measures them, and spurious retransmissions.
    pub(super) struct RoundTrips {
        rtt_samples: Option<u32>,
        rtt_min_us: Option<i64>,
        rtt_smoothed_us: Option<i64>,
        rtt_variation_us: Option<i64>,
        rtt_series_at_us: Option<Integers>,
        rtt_series_us: Option<Integers>,
        pto_series_us: Option<Integers>,
        spurious_retransmissions_client: Option<u32>,
        spurious_retransmissions_server: Option<u32>,
    }
}

impl RoundTrips {
    pub(super) fn new(c: &Connection) -> RoundTrips {
        let r = &c.recovery;
        let is_client = c.timeline.exchange.capture_side() == Some(CaptureSide::Client);
        // After an ACK that was not understood, the next one seems late.
        let is_known = is_client && !c.misses_frames(false);
        let rtt = Some(&r.rtt).filter(|rtt| is_known && rtt.samples > 0);
        let start_ns = c.timeline.start_ns;
        let series =
            |of: &dyn Fn(&Sample) -> i64| rtt.map(|_| Integers(r.samples.iter().map(of).collect()));
        // Without keys or one direction, the sent or received data is unknown.
        let is_whole = c.is_open() && c.packets.client > 0 && c.packets.server > 0;
        let (client, server) = is_whole.then(|| r.spurious()).unzip();
        RoundTrips {
            rtt_samples: rtt.map(|rtt| rtt.samples),
            rtt_min_us: rtt.map(|rtt| rtt.min_ns.div_euclid(1000)),
            rtt_smoothed_us: rtt.map(|rtt| rtt.smoothed_ns.div_euclid(1000)),
            rtt_variation_us: rtt.map(|rtt| rtt.variation_ns.div_euclid(1000)),
            rtt_series_at_us: series(&|sample| micros(start_ns, sample.ns)),
            rtt_series_us: series(&|sample| micros(0, sample.rtt_ns)),
            pto_series_us: series(&|sample| micros(0, sample.pto_ns)),
            spurious_retransmissions_client: client.flatten(),
            spurious_retransmissions_server: server.flatten(),
        }
    }
}

columns! {
    /// Bytes and rates.
    pub(super) struct Transfer {
        ip_bytes_client: Option<u64>,
        ip_bytes_server: Option<u64>,
        ip_length_guessed: Option<bool>,
        payload_bytes_client: Option<u64>,
        payload_bytes_server: Option<u64>,
        duration_us: Option<i64>,
        anrw_throughput_bps: Option<i64>,
        anrw_goodput_bps: Option<i64>,
        download_throughput_bps: Option<i64>,
        upload_throughput_bps: Option<i64>,
        application_goodput_bps: Option<i64>,
        retransmitted_bytes_client: Option<u64>,
        retransmitted_bytes_server: Option<u64>,
        retransmission_rate: Option<f64>,
    }
}

impl Transfer {
    pub(super) fn new(c: &Connection) -> Transfer {
        let volume = &c.volume;
        // Without keys, payload and retransmissions are unknown.
        let known = Some(volume).filter(|_| c.is_open());
        Transfer {
            ip_bytes_client: Some(volume.client.ip_bytes),
            ip_bytes_server: Some(volume.server.ip_bytes),
            ip_length_guessed: Some(volume.is_guessed),
            payload_bytes_client: known.map(|v| v.client.content().payload_bytes),
            payload_bytes_server: known.map(|v| v.server.content().payload_bytes),
            duration_us: Some(micros(volume.start_ns, volume.last_ns)),
            anrw_throughput_bps: volume.anrw_throughput_bps(),
            anrw_goodput_bps: known.and_then(Volume::anrw_goodput_bps),
            download_throughput_bps: known.and_then(Volume::download_throughput_bps),
            upload_throughput_bps: known.and_then(Volume::upload_throughput_bps),
            application_goodput_bps: known.and_then(Volume::application_goodput_bps),
            retransmitted_bytes_client: known.map(|v| v.client.content().ip_bytes_again),
            retransmitted_bytes_server: known.map(|v| v.server.content().ip_bytes_again),
            retransmission_rate: known.and_then(Volume::retransmission_rate),
        }
    }
}

columns! {
    /// Key updates, paths, and the close.
    pub(super) struct Closing<'a> {
        key_updates_client: Option<u64>,
        key_updates_server: Option<u64>,
        paths: u16,
        migrations: Option<u32>,
        closed_us: Option<i64>,
        closed_by: Option<&'static str>,
        closed_by_application: Option<bool>,
        closed_code: Option<u64>,
        closed_reason: Option<&'a str>,
    }
}

impl<'a> Closing<'a> {
    pub(super) fn new(c: &'a Connection) -> Closing<'a> {
        let (client, server) = c.key_updates();
        let closing = c.closing.as_deref();
        Closing {
            key_updates_client: c.has_keys().then_some(client),
            key_updates_server: c.has_keys().then_some(server),
            paths: u16::try_from(c.path_count()).unwrap_or(u16::MAX),
            // A frame that was not understood may do more than probe the path.
            migrations: c
                .migrations()
                .filter(|_| c.path_count() == 1 || !c.misses_frames(true)),
            closed_us: closing.map(|close| micros(c.timeline.start_ns, close.ns)),
            closed_by: closing.map(|close| if close.by_client { "client" } else { "server" }),
            closed_by_application: closing.map(|close| close.by_application),
            closed_code: closing.map(|close| close.code),
            closed_reason: closing.map(|close| close.reason.as_str()),
        }
    }
}
