//! Rows of `tcp_flow`; schemas/records/tcp_flow.yaml says what the columns mean.

use super::Type::{Bool, F64, I64, String as Text, U8, U16};
use super::{Column, Value, always, maybe};
use crate::flow::quantiles::Durations;
use crate::tcp::Flow;
use crate::tcp::flow::{CaptureSide, Offer, Side};

/// Columns in the order of [`row`].
pub const COLUMNS: &[Column] = &[
    always("source_file", Text),
    always("start_time_ns", I64),
    always("client_ip", Text),
    always("client_port", U16),
    always("server_ip", Text),
    always("server_port", U16),
    always("ports_reused", Bool),
    maybe("capture_side", Text),
    maybe("mss_client", U16),
    maybe("mss_server", U16),
    maybe("wscale_client", U8),
    maybe("wscale_server", U8),
    maybe("sack_permitted_client", Bool),
    maybe("sack_permitted_server", Bool),
    maybe("timestamps_client", Bool),
    maybe("timestamps_server", Bool),
    maybe("ecn_setup_client", Bool),
    maybe("ecn_setup_server", Bool),
    maybe("window_shift_client", U8),
    maybe("window_shift_server", U8),
    maybe("highest_window_client", I64),
    maybe("highest_window_server", I64),
    always("sack_packets_client", I64),
    always("sack_packets_server", I64),
    always("sack_blocks_client", I64),
    always("sack_blocks_server", I64),
    always("ece_packets_client", I64),
    always("ece_packets_server", I64),
    always("cwr_packets_client", I64),
    always("cwr_packets_server", I64),
    always("ce_packets_client", I64),
    always("ce_packets_server", I64),
    always("packets_client", I64),
    always("packets_server", I64),
    always("ip_bytes_client", I64),
    always("ip_bytes_server", I64),
    always("ip_length_guessed", Bool),
    always("payload_bytes_client", I64),
    always("payload_bytes_server", I64),
    always("duration_us", I64),
    maybe("anrw_throughput_bps", I64),
    maybe("anrw_goodput_bps", I64),
    maybe("download_throughput_bps", I64),
    maybe("upload_throughput_bps", I64),
    maybe("application_goodput_bps", I64),
    maybe("syn_ack_us", I64),
    maybe("handshake_us", I64),
    maybe("request_us", I64),
    maybe("first_byte_us", I64),
    always("rtt_samples", I64),
    maybe("rtt_min_us", I64),
    maybe("rtt_mean_us", I64),
    maybe("rtt_p50_us", I64),
    maybe("rtt_max_us", I64),
    maybe("rtt_near_mean_us", I64),
    always("retransmission_packets", I64),
    always("fast_retransmission_packets", I64),
    always("spurious_retransmission_packets", I64),
    always("out_of_order_packets", I64),
    always("retransmitted_bytes_client", I64),
    always("retransmitted_bytes_server", I64),
    maybe("retransmission_rate", F64),
    always("zero_windows_client", I64),
    always("zero_windows_server", I64),
    always("resets_client", I64),
    always("resets_server", I64),
    always("fin_client", Bool),
    always("fin_server", Bool),
    maybe("ttl_server", U8),
];

/// The row of a flow.
pub fn row<'a>(source_file: &'a str, flow: &'a Flow) -> Vec<Value<'a>> {
    let (client, server) = (&flow.client_side, &flow.server_side);
    let volume = &flow.volume;
    // Without the SYN, nobody knows how long before the first packet the connection began.
    let begun = flow.syn_ns.map(|_| volume.start_ns);
    let since_start =
        |ns: Option<i64>| Value::from(begun.zip(ns).map(|(start, ns)| us(ns - start)));
    let (far, near) = round_trips(flow);
    let [rtt_p50] = far.quantiles([0.5]);
    let side = flow.capture_side().map(|side| match side {
        CaptureSide::Client => "client",
        CaptureSide::Server => "server",
    });
    let mut row: Vec<Value<'a>> = vec![
        source_file.into(),
        volume.start_ns.into(),
        flow.client.ip().into(),
        flow.client.port().into(),
        flow.server.ip().into(),
        flow.server.port().into(),
        flow.ports_reused.into(),
        side.into(),
    ];
    both(&mut row, flow, |side| offered(side, |o| o.mss));
    both(&mut row, flow, |side| offered(side, |o| o.wscale));
    both(&mut row, flow, |side| {
        offered(side, |o| o.known(o.sack_permitted))
    });
    both(&mut row, flow, |side| {
        offered(side, |o| o.known(o.timestamps))
    });
    both(&mut row, flow, |side| offered(side, |o| Some(o.ecn_setup)));
    row.extend([true, false].map(|c| Value::from(flow.shift(c))));
    row.extend([true, false].map(|c| Value::from(flow.highest_window(c))));
    both(&mut row, flow, |side| side.sack_packets.into());
    both(&mut row, flow, |side| side.sack_blocks.into());
    both(&mut row, flow, |side| side.ece_packets.into());
    both(&mut row, flow, |side| side.cwr_packets.into());
    both(&mut row, flow, |side| side.ce_packets.into());
    row.extend([
        volume.client.packets.into(),
        volume.server.packets.into(),
        volume.client.ip_bytes.into(),
        volume.server.ip_bytes.into(),
        volume.is_guessed.into(),
        volume.client.payload_bytes.into(),
        volume.server.payload_bytes.into(),
        us(volume.last_ns - volume.start_ns).into(),
        volume.anrw_throughput_bps().into(),
        volume.anrw_goodput_bps().into(),
        volume.download_throughput_bps().into(),
        volume.upload_throughput_bps().into(),
        volume.application_goodput_bps().into(),
        since_start(flow.syn_ack_ns),
        since_start(flow.handshake_ns),
        since_start(client.first_payload_ns),
        since_start(server.first_payload_ns),
        far.count().into(),
        far.min().map(us).into(),
        far.mean().map(us).into(),
        rtt_p50.map(us).into(),
        far.max().map(us).into(),
        near.mean().map(us).into(),
        flow.classes.retransmission.into(),
        flow.classes.fast.into(),
        flow.classes.spurious.into(),
        flow.classes.out_of_order.into(),
        volume.client.ip_bytes_again.into(),
        volume.server.ip_bytes_again.into(),
        volume.retransmission_rate().into(),
    ]);
    both(&mut row, flow, |side| side.zero_windows.into());
    both(&mut row, flow, |side| side.resets.into());
    both(&mut row, flow, |side| (side.fins > 0).into());
    row.push(flow.ttl_server.into());
    row
}

/// Pushes a cell of the client and one of the server.
fn both<'a>(row: &mut Vec<Value<'a>>, flow: &'a Flow, cell: impl Fn(&'a Side) -> Value<'a>) {
    row.extend([cell(&flow.client_side), cell(&flow.server_side)]);
}

fn offered<'a, T: Into<Value<'a>>>(
    side: &'a Side,
    cell: impl Fn(&'a Offer) -> Option<T>,
) -> Value<'a> {
    side.offer.as_ref().and_then(cell).into()
}

/// Round trips from the capture to the far end and back, and those to the near end. Where the capture was taken at the server, its own
/// packets make the long way; else the client's.
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
