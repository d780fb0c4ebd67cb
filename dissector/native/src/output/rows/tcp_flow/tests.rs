//! Rows of flows from segments with known times.

use firstflight_wire::tcp::Flags;

use super::*;
use crate::flow::expiry::Bounds;
use crate::output::testing::{S, lines};
use crate::tcp::Tcp;

const MS: i64 = 1_000_000;
const SYN: u8 = Flags::SYN;
const ACK: u8 = Flags::ACK;
const FIN: u8 = Flags::FIN;
const ECE: u8 = Flags::ECE;
const CWR: u8 = Flags::CWR;

/// Padding and the timestamps option.
const fn timestamps(value: u8, echo: u8) -> [u8; 12] {
    [1, 1, 8, 10, 0, 0, 0, value, 0, 0, 0, echo]
}

/// A segment's usual properties.
const PLAIN: S<'_> = S {
    from_client: true,
    seq: 1001,
    ack: 5001,
    flags: ACK,
    window: 500,
    options: &[],
    payload: 0,
    ecn: 0,
};
const SERVER: S<'_> = S {
    from_client: false,
    seq: 5001,
    ack: 1101,
    window: 300,
    ..PLAIN
};

fn flow(segments: &[(i64, S<'_>)]) -> Box<Flow> {
    let mut tcp = Tcp::new(Bounds {
        idle_ns: 1 << 60,
        closing_ns: 1 << 60,
        max_live: 9,
    });
    for (ns, segment) in segments {
        tcp.segment(*ns, &segment.segment()).expect("a flow");
    }
    tcp.drain().expect("a flow")
}

/// SYN, SYN-ACK and ACK with timestamps at these times in ms.
fn handshake(times: [i64; 3]) -> [(i64, S<'static>); 3] {
    let [syn, syn_ack, ack] = times.map(|ms| ms * MS);
    let of_syn: &[u8] = &[
        2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let of_syn_ack: &[u8] = &[
        2, 4, 5, 0x78, 1, 3, 3, 9, 1, 1, 8, 10, 0, 0, 0, 100, 0, 0, 0, 1,
    ];
    const OF_ACK: &[u8] = &timestamps(2, 100);
    [
        (
            syn,
            S {
                seq: 1000,
                ack: 0,
                flags: SYN | ECE | CWR,
                window: 64_240,
                options: of_syn,
                ..PLAIN
            },
        ),
        (
            syn_ack,
            S {
                seq: 5000,
                ack: 1001,
                flags: SYN | ACK | ECE,
                window: 65_000,
                options: of_syn_ack,
                ..SERVER
            },
        ),
        (
            ack,
            S {
                options: OF_ACK,
                ..PLAIN
            },
        ),
    ]
}

#[test]
fn a_flow_with_everything_shows_it() {
    let of_request = timestamps(3, 100);
    let of_answer = timestamps(101, 3);
    let of_sack = [
        &timestamps(4, 101)[..],
        &[1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4],
    ]
    .concat();
    let rest = [
        (
            22,
            S {
                window: 501,
                options: &of_request,
                payload: 100,
                ..PLAIN
            },
        ),
        (
            45,
            S {
                options: &of_answer,
                payload: 1000,
                ecn: 3,
                ..SERVER
            },
        ),
        (
            46,
            S {
                seq: 1101,
                ack: 6001,
                flags: ACK | ECE,
                window: 502,
                options: &of_sack,
                ..PLAIN
            },
        ),
        (
            60,
            S {
                seq: 6001,
                window: 0,
                ..SERVER
            },
        ),
        // A spurious retransmission: the client already has the data.
        (
            70,
            S {
                payload: 1000,
                ..SERVER
            },
        ),
        (
            80,
            S {
                seq: 6001,
                flags: ACK | FIN,
                ..SERVER
            },
        ),
        (
            81,
            S {
                seq: 1101,
                ack: 6002,
                flags: ACK | FIN | CWR,
                ..PLAIN
            },
        ),
    ];
    let rest = rest.map(|(ms, segment)| (ms * MS + 999, segment));
    let mut segments = handshake([0, 20, 21]).to_vec();
    segments.extend(rest);
    // Not at the beginning of time.
    let segments: Vec<_> = segments
        .into_iter()
        .map(|(ns, segment)| (ns + 7_000, segment))
        .collect();
    let flow = flow(&segments);
    let expected = "source_file=x.pcap\n\
        start_time_ns=7000\n\
        client_ip=192.0.2.1\n\
        client_port=50000\n\
        server_ip=198.51.100.1\n\
        server_port=443\n\
        ports_reused=false\n\
        capture_side=client\n\
        mss_client=1460\n\
        mss_server=1400\n\
        wscale_client=7\n\
        wscale_server=9\n\
        sack_permitted_client=true\n\
        sack_permitted_server=false\n\
        timestamps_client=true\n\
        timestamps_server=true\n\
        ecn_setup_client=true\n\
        ecn_setup_server=true\n\
        window_shift_client=7\n\
        window_shift_server=9\n\
        highest_window_client=64256\n\
        highest_window_server=153600\n\
        sack_packets_client=1\n\
        sack_packets_server=0\n\
        sack_blocks_client=2\n\
        sack_blocks_server=0\n\
        ece_packets_client=1\n\
        ece_packets_server=0\n\
        cwr_packets_client=1\n\
        cwr_packets_server=0\n\
        ce_packets_client=0\n\
        ce_packets_server=1\n\
        packets_client=5\n\
        packets_server=5\n\
        ip_bytes_client=376\n\
        ip_bytes_server=2232\n\
        ip_length_guessed=false\n\
        payload_bytes_client=100\n\
        payload_bytes_server=1000\n\
        duration_us=81000\n\
        anrw_throughput_bps=257577\n\
        anrw_goodput_bps=154862\n\
        download_throughput_bps=250510\n\
        upload_throughput_bps=95995\n\
        application_goodput_bps=114284\n\
        syn_ack_us=20000\n\
        handshake_us=21000\n\
        request_us=22000\n\
        first_byte_us=45000\n\
        rtt_samples=2\n\
        rtt_min_us=20000\n\
        rtt_mean_us=21500\n\
        rtt_p50_us=21500\n\
        rtt_max_us=23000\n\
        rtt_near_mean_us=1000\n\
        retransmission_packets=0\n\
        fast_retransmission_packets=0\n\
        spurious_retransmission_packets=1\n\
        out_of_order_packets=0\n\
        retransmitted_bytes_client=0\n\
        retransmitted_bytes_server=1040\n\
        retransmission_rate=0.3987730061349693\n\
        zero_windows_client=0\n\
        zero_windows_server=1\n\
        resets_client=0\n\
        resets_server=0\n\
        fin_client=true\n\
        fin_server=true\n\
        ttl_server=57\n";
    assert_eq!(lines(&TcpFlowRow::new("x.pcap", &flow)), expected);
}

#[test]
fn at_the_server_its_own_packets_make_the_long_way() {
    let flow = flow(&handshake([0, 1, 30]));
    let row = TcpFlowRow::new("x", &flow);
    assert_eq!(row.capture_side, Some("server"));
    assert_eq!((row.rtt_samples, row.rtt_min_us), (1, Some(29_000)));
    assert_eq!(
        (row.rtt_p50_us, row.rtt_max_us),
        (Some(29_000), Some(29_000))
    );
    assert_eq!(row.rtt_near_mean_us, Some(1_000));
    assert_eq!((row.fin_client, row.fin_server), (false, false));
}

#[test]
fn without_the_handshake_it_is_unknown_when_it_began() {
    let flow = flow(&[
        (0, PLAIN),
        (
            5 * MS,
            S {
                payload: 9,
                ..SERVER
            },
        ),
        (
            6 * MS,
            S {
                payload: 9,
                ..PLAIN
            },
        ),
    ]);
    let row = TcpFlowRow::new("x", &flow);
    assert_eq!((row.syn_ack_us, row.handshake_us), (None, None));
    assert_eq!((row.request_us, row.first_byte_us), (None, None));
    assert_eq!((row.capture_side, row.mss_client), (None, None));
    assert_eq!((row.rtt_samples, row.rtt_mean_us), (0, None));
    assert_eq!(row.duration_us, 6000);
}

#[test]
fn the_first_bytes_of_a_stream_count_if_later_ones_came_before_them() {
    let data = |seq, payload| S {
        seq,
        payload,
        ..SERVER
    };
    let mut segments = handshake([0, 1, 2]).to_vec();
    let syn_ack = segments[1].1;
    // The first segment was lost and is sent again. A late copy of the SYN-ACK changes nothing.
    segments.extend([
        (3 * MS, data(6449, 1448)),
        (40 * MS, data(5001, 1448)),
        (41 * MS, syn_ack),
        (42 * MS, data(5001, 1448)),
    ]);
    let row = TcpFlowRow::new("x", &flow(&segments));
    assert_eq!(row.payload_bytes_server, 2896);
    assert_eq!(row.application_goodput_bps, Some(2896 * 8 * 1000 / 42));
    // Without the SYN-ACK, the start of the stream is unknown.
    segments.retain(|(_, segment)| segment.flags & SYN == 0);
    let row = TcpFlowRow::new("x", &flow(&segments));
    assert_eq!(row.payload_bytes_server, 1448);
}

/// A server that lost the connection's state chooses another number.
#[test]
fn a_stream_begins_by_the_last_syn_before_its_first_byte() {
    let mut segments = handshake([0, 1, 2]).to_vec();
    let again = S {
        seq: 4000,
        ..segments[1].1
    };
    let data = S {
        seq: 4001,
        payload: 500,
        ..SERVER
    };
    segments.extend([(3 * MS, again), (4 * MS, data)]);
    let row = TcpFlowRow::new("x", &flow(&segments));
    assert_eq!(row.payload_bytes_server, 500);
}
