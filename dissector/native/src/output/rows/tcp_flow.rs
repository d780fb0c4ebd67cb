//! Rows of `tcp_flow`. schemas/records/tcp_flow.yaml documents the columns.

use firstflight_records::columns;

use crate::flow::quantiles::Durations;
use crate::output::cells::Ip;
use crate::tcp::Flow;
use crate::tcp::flow::{CaptureSide, Offer, Side};
use crate::tcp::limits::Cause;

columns! {
    /// A flow.
    pub struct TcpFlowRow<'a> {
        source_file: &'a str,
        start_time_ns: i64,
        client_ip: Ip,
        client_port: u16,
        server_ip: Ip,
        server_port: u16,
        ports_reused: bool,
        capture_side: Option<&'static str>,
        mss_client: Option<u16>,
        mss_server: Option<u16>,
        wscale_client: Option<u8>,
        wscale_server: Option<u8>,
        sack_permitted_client: Option<bool>,
        sack_permitted_server: Option<bool>,
        timestamps_client: Option<bool>,
        timestamps_server: Option<bool>,
        ecn_setup_client: Option<bool>,
        ecn_setup_server: Option<bool>,
        window_shift_client: Option<u8>,
        window_shift_server: Option<u8>,
        highest_window_client: Option<i64>,
        highest_window_server: Option<i64>,
        sack_packets_client: u64,
        sack_packets_server: u64,
        sack_blocks_client: u64,
        sack_blocks_server: u64,
        ece_packets_client: u64,
        ece_packets_server: u64,
        cwr_packets_client: u64,
        cwr_packets_server: u64,
        ce_packets_client: u64,
        ce_packets_server: u64,
        packets_client: u64,
        packets_server: u64,
        ip_bytes_client: u64,
        ip_bytes_server: u64,
        ip_length_guessed: bool,
        payload_bytes_client: u64,
        payload_bytes_server: u64,
        duration_us: i64,
        anrw_throughput_bps: Option<i64>,
        anrw_goodput_bps: Option<i64>,
        download_throughput_bps: Option<i64>,
        upload_throughput_bps: Option<i64>,
        application_goodput_bps: Option<i64>,
        syn_ack_us: Option<i64>,
        handshake_us: Option<i64>,
        request_us: Option<i64>,
        first_byte_us: Option<i64>,
        rtt_samples: u64,
        rtt_min_us: Option<i64>,
        rtt_mean_us: Option<i64>,
        rtt_p50_us: Option<i64>,
        rtt_max_us: Option<i64>,
        rtt_near_mean_us: Option<i64>,
        retransmission_packets: u64,
        fast_retransmission_packets: u64,
        spurious_retransmission_packets: u64,
        out_of_order_packets: u64,
        retransmitted_bytes_client: u64,
        retransmitted_bytes_server: u64,
        retransmission_rate: Option<f64>,
        limited_by: Option<&'static str>,
        limited_application_us: Option<i64>,
        limited_receive_window_us: Option<i64>,
        limited_congestion_window_us: Option<i64>,
        limited_path_us: Option<i64>,
        zero_windows_client: u64,
        zero_windows_server: u64,
        resets_client: u64,
        resets_server: u64,
        fin_client: bool,
        fin_server: bool,
        ttl_server: Option<u8>,
    }
}

impl<'a> TcpFlowRow<'a> {
    /// Creates a flow's row.
    pub fn new(source_file: &'a str, flow: &Flow) -> TcpFlowRow<'a> {
        let (client, server, volume) = (&flow.client_side, &flow.server_side, &flow.volume);
        // Without the SYN, the start of the connection before its first packet is unknown.
        let begun = flow.syn_ns.map(|_| volume.start_ns);
        let since_start = |ns: Option<i64>| begun.zip(ns).map(|(start, ns)| us(ns - start));
        let (far, near) = round_trips(flow);
        let [rtt_p50] = far.quantiles([0.5]);
        let side = flow.capture_side().map(|side| match side {
            CaptureSide::Client => "client",
            CaptureSide::Server => "server",
        });
        let limited = |cause| flow.limited_ns(cause).map(us);
        TcpFlowRow {
            source_file,
            start_time_ns: volume.start_ns,
            client_ip: Ip(flow.client.ip()),
            client_port: flow.client.port(),
            server_ip: Ip(flow.server.ip()),
            server_port: flow.server.port(),
            ports_reused: flow.ports_reused,
            capture_side: side,
            mss_client: offered(client, |o| o.mss),
            mss_server: offered(server, |o| o.mss),
            wscale_client: offered(client, |o| o.wscale),
            wscale_server: offered(server, |o| o.wscale),
            sack_permitted_client: offered(client, |o| o.known(o.sack_permitted)),
            sack_permitted_server: offered(server, |o| o.known(o.sack_permitted)),
            timestamps_client: offered(client, |o| o.known(o.timestamps)),
            timestamps_server: offered(server, |o| o.known(o.timestamps)),
            ecn_setup_client: offered(client, |o| Some(o.ecn_setup)),
            ecn_setup_server: offered(server, |o| Some(o.ecn_setup)),
            window_shift_client: flow.shift(true),
            window_shift_server: flow.shift(false),
            highest_window_client: flow.highest_window(true),
            highest_window_server: flow.highest_window(false),
            sack_packets_client: client.sack_packets,
            sack_packets_server: server.sack_packets,
            sack_blocks_client: client.sack_blocks,
            sack_blocks_server: server.sack_blocks,
            ece_packets_client: client.ece_packets,
            ece_packets_server: server.ece_packets,
            cwr_packets_client: client.cwr_packets,
            cwr_packets_server: server.cwr_packets,
            ce_packets_client: client.ce_packets,
            ce_packets_server: server.ce_packets,
            packets_client: volume.client.packets,
            packets_server: volume.server.packets,
            ip_bytes_client: volume.client.ip_bytes,
            ip_bytes_server: volume.server.ip_bytes,
            ip_length_guessed: volume.is_guessed,
            payload_bytes_client: volume.client.content().payload_bytes,
            payload_bytes_server: volume.server.content().payload_bytes,
            duration_us: us(volume.last_ns - volume.start_ns),
            anrw_throughput_bps: volume.anrw_throughput_bps(),
            anrw_goodput_bps: volume.anrw_goodput_bps(),
            download_throughput_bps: volume.download_throughput_bps(),
            upload_throughput_bps: volume.upload_throughput_bps(),
            application_goodput_bps: volume.application_goodput_bps(),
            syn_ack_us: since_start(flow.syn_ack_ns),
            handshake_us: since_start(flow.handshake_ns),
            request_us: since_start(client.first_payload_ns),
            first_byte_us: since_start(server.first_payload_ns),
            rtt_samples: far.count(),
            rtt_min_us: far.min().map(us),
            rtt_mean_us: far.mean().map(us),
            rtt_p50_us: rtt_p50.map(us),
            rtt_max_us: far.max().map(us),
            rtt_near_mean_us: near.mean().map(us),
            retransmission_packets: flow.classes.retransmission,
            fast_retransmission_packets: flow.classes.fast,
            spurious_retransmission_packets: flow.classes.spurious,
            out_of_order_packets: flow.classes.out_of_order,
            retransmitted_bytes_client: volume.client.content().ip_bytes_again,
            retransmitted_bytes_server: volume.server.content().ip_bytes_again,
            retransmission_rate: volume.retransmission_rate(),
            limited_by: flow.limited_by().map(Cause::name),
            limited_application_us: limited(Cause::Application),
            limited_receive_window_us: limited(Cause::ReceiveWindow),
            limited_congestion_window_us: limited(Cause::CongestionWindow),
            limited_path_us: limited(Cause::Path),
            zero_windows_client: client.zero_windows,
            zero_windows_server: server.zero_windows,
            resets_client: client.resets,
            resets_server: server.resets,
            fin_client: client.fins > 0,
            fin_server: server.fins > 0,
            ttl_server: flow.ttl_server,
        }
    }
}

fn offered<T>(side: &Side, cell: impl Fn(&Offer) -> Option<T>) -> Option<T> {
    side.offer.as_ref().and_then(cell)
}

/// Round trips from the capture to the far end and back, and to the near end and back. In a capture at the server, the
/// server's packets travel to the far end; otherwise the client's.
fn round_trips(flow: &Flow) -> (&Durations, &Durations) {
    let client = &flow.client_side.round_trips.samples;
    let server = &flow.server_side.round_trips.samples;
    if flow.capture_side() == Some(CaptureSide::Server) {
        (server, client)
    } else {
        (client, server)
    }
}

fn us(ns: i64) -> i64 {
    ns.div_euclid(1000)
}

#[cfg(test)]
mod tests;
