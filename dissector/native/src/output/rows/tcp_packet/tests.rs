//! Rows of segments, and the words in them.

use super::*;
use crate::flow::expiry::Bounds;
use crate::output::testing::{S, lines};
use crate::tcp::Tcp;

const SYN: S<'_> = S {
    from_client: true,
    seq: 1000,
    ack: 0,
    flags: Flags::SYN,
    window: 64_240,
    options: &[2, 4, 5, 0xb4, 3, 3, 7, 1],
    payload: 0,
    ecn: 0,
};

#[test]
fn segments_are_shown_with_their_header() {
    let syn_ack = S {
        from_client: false,
        seq: 5000,
        ack: 1001,
        flags: Flags::SYN | Flags::ACK,
        ..SYN
    };
    let data = S {
        seq: 1001,
        ack: 5001,
        flags: Flags::ACK | Flags::PSH,
        window: 500,
        options: &[],
        payload: 100,
        ecn: 2,
        ..SYN
    };
    let mut tcp = Tcp::new(Bounds {
        idle_ns: 1 << 60,
        closing_ns: 1 << 60,
        max_live: 9,
    });
    let mut rows = Vec::new();
    for (number, ns, segment) in [
        (1, 5_000, SYN),
        (2, 6_999, syn_ack),
        (3, 8_000, data),
        (4, 300_000_000, data),
    ] {
        let segment = segment.segment();
        let (flow, verdict) = tcp.segment(ns, &segment).unwrap();
        let row = TcpPacketRow::new("x.pcap", (number, ns), flow, &segment, &verdict);
        rows.push(lines(&row));
    }
    let expected = [
        "source_file=x.pcap\n\
            frame_number=1\n\
            time_ns=5000\n\
            since_start_us=0\n\
            from_client=true\n\
            src_ip=192.0.2.1\n\
            src_port=50000\n\
            dst_ip=198.51.100.1\n\
            dst_port=443\n\
            seq=1000\n\
            ack=0\n\
            flags=syn\n\
            window=64240\n\
            checksum=43981\n\
            urgent=9\n\
            header_bytes=28\n\
            payload_bytes=0\n\
            ip_bytes=48\n\
            ttl=64\n\
            ecn=0\n\
            options=mss 1460; wscale 7; nop\n\
            marks=\n",
        "source_file=x.pcap\n\
            frame_number=2\n\
            time_ns=6999\n\
            since_start_us=1\n\
            from_client=false\n\
            src_ip=198.51.100.1\n\
            src_port=443\n\
            dst_ip=192.0.2.1\n\
            dst_port=50000\n\
            seq=5000\n\
            ack=1001\n\
            flags=ack,syn\n\
            window=64240\n\
            checksum=43981\n\
            urgent=9\n\
            header_bytes=28\n\
            payload_bytes=0\n\
            ip_bytes=48\n\
            ttl=57\n\
            ecn=0\n\
            options=mss 1460; wscale 7; nop\n\
            marks=\n",
        "source_file=x.pcap\n\
            frame_number=3\n\
            time_ns=8000\n\
            since_start_us=3\n\
            from_client=true\n\
            src_ip=192.0.2.1\n\
            src_port=50000\n\
            dst_ip=198.51.100.1\n\
            dst_port=443\n\
            seq=1001\n\
            ack=5001\n\
            flags=ack,psh\n\
            window=500\n\
            window_shift=7\n\
            checksum=43981\n\
            urgent=9\n\
            header_bytes=20\n\
            payload_bytes=100\n\
            ip_bytes=140\n\
            ttl=64\n\
            ecn=2\n\
            options=\n\
            marks=\n",
    ];
    assert_eq!(rows[..3], expected);
    assert!(rows[3].contains("class=retransmission\n"), "{}", rows[3]);
}

#[test]
fn classes_have_names() {
    let classes = [
        Class::Retransmission,
        Class::Fast,
        Class::Spurious,
        Class::OutOfOrder,
    ];
    let names = [
        "retransmission",
        "fast_retransmission",
        "spurious_retransmission",
        "out_of_order",
    ];
    assert_eq!(classes.map(class), names);
}

#[test]
fn marks_that_are_set_are_named_in_order() {
    let none = Marks::default();
    let set: [fn(&mut Marks); 8] = [
        |marks| marks.lost_segment = true,
        |marks| marks.ack_lost_segment = true,
        |marks| marks.keep_alive = true,
        |marks| marks.keep_alive_ack = true,
        |marks| marks.duplicate_ack = true,
        |marks| marks.zero_window = true,
        |marks| marks.zero_window_probe = true,
        |marks| marks.zero_window_probe_ack = true,
    ];
    let names = [
        "lost_segment",
        "ack_lost_segment",
        "keep_alive",
        "keep_alive_ack",
        "duplicate_ack",
        "zero_window",
        "zero_window_probe",
        "zero_window_probe_ack",
    ];
    assert_eq!(marks(&none), "");
    let mut all = none;
    for (set, name) in set.into_iter().zip(names) {
        let mut single = none;
        set(&mut single);
        set(&mut all);
        assert_eq!(marks(&single), name);
    }
    assert_eq!(marks(&all), names.join(","));
}

#[test]
fn flags_that_are_set_are_named_highest_first() {
    for (bits, names) in [
        (0, ""),
        (0x01, "fin"),
        (0x02, "syn"),
        (0x04, "rst"),
        (0x08, "psh"),
        (0x10, "ack"),
        (0x20, "urg"),
        (0x40, "ece"),
        (0x80, "cwr"),
        (0xff, "cwr,ece,urg,ack,psh,rst,syn,fin"),
    ] {
        assert_eq!(flags(Flags(bits)), names);
    }
}

#[test]
fn options_are_shown_in_order() {
    for (bytes, expected) in [
        (&[][..], ""),
        (&[1, 1, 4, 2], "nop; nop; sack_permitted"),
        (&[2, 4, 5, 0xb4, 3, 3, 7, 0], "mss 1460; wscale 7; end"),
        (
            &[1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 9],
            "nop; nop; timestamps 256 9",
        ),
        (
            &[1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 1, 0],
            "nop; nop; sack 1-2,3-256",
        ),
        (&[0xfe, 4, 0x0a, 0xff], "kind 254 0aff"),
        (&[1, 1, 1, 2], "nop; nop; nop; input ends too early"),
    ] {
        let segment = S {
            options: bytes,
            ..SYN
        };
        assert_eq!(options(&segment.segment().header), expected, "{bytes:?}");
    }
}
