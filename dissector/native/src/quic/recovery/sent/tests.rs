//! Packets sent in sequence, and the results of their acknowledgements.

use super::*;
use firstflight_wire::{Frames, Writer, write_ack};

fn acknowledge(sent: &mut Sent, ranges: &[(u64, u64)]) -> Option<NewlyAcknowledged> {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    write_ack(&mut w, ranges[0].0, 0, ranges).unwrap();
    let Some(Ok(Frame::Ack(ack))) = Frames::new(w.written()).next() else {
        panic!("no ACK")
    };
    sent.acknowledge(&ack)
}

fn stream(id: u64, offset: u64, data: &[u8]) -> Frame<'_> {
    Frame::Stream {
        id,
        offset,
        fin: false,
        data,
    }
}

#[test]
fn samples_need_the_largest_new_and_something_that_elicits() {
    let mut sent = Sent::default();
    sent.packet(0, 10, &[Frame::Ping], true, PACKETS);
    sent.packet(1, 20, &[Frame::Padding { length: 3 }], true, PACKETS);
    sent.packet(2, 30, &[Frame::Ping], true, PACKETS);
    assert_eq!(
        acknowledge(&mut sent, &[(1, 0)]),
        Some(NewlyAcknowledged { sent_ns: 20 })
    );
    assert_eq!(acknowledge(&mut sent, &[(1, 0)]), None, "nothing is new");
    sent.packet(4, 50, &[Frame::Padding { length: 3 }], true, PACKETS);
    assert_eq!(
        acknowledge(&mut sent, &[(4, 4), (1, 0)]),
        None,
        "only padding"
    );
    assert_eq!(
        acknowledge(&mut sent, &[(4, 4), (2, 0)]),
        None,
        "largest is old"
    );
    assert_eq!(acknowledge(&mut sent, &[(9, 9)]), None, "never seen");
}

#[test]
fn repetitions_are_spurious_when_the_first_packet_arrived() {
    let mut sent = Sent::default();
    sent.packet(0, 0, &[stream(0, 0, b"abcd")], true, PACKETS);
    sent.packet(1, 1, &[stream(0, 4, b"efgh")], true, PACKETS);
    sent.packet(2, 2, &[stream(0, 0, b"abcd")], true, PACKETS);
    sent.packet(3, 3, &[stream(4, 0, b"efgh")], true, PACKETS);
    assert_eq!(sent.spurious, 0);
    acknowledge(&mut sent, &[(2, 1)]);
    assert_eq!(sent.spurious, 0, "packet 0 may be lost");
    acknowledge(&mut sent, &[(2, 0)]);
    assert_eq!(sent.spurious, 1);
    // Again, after the first packet was acknowledged.
    sent.packet(4, 4, &[stream(0, 6, b"gh")], true, PACKETS);
    assert_eq!(sent.spurious, 2);
    // The repetition arrives before the packet that it repeats. That packet was late and not lost.
    sent.packet(7, 5, &[stream(12, 0, b"ab")], true, PACKETS);
    sent.packet(6, 5, &[stream(12, 0, b"ab")], true, PACKETS);
    assert_eq!(sent.spurious, 2);
    acknowledge(&mut sent, &[(7, 6)]);
    assert_eq!(sent.spurious, 3);
    // A late packet with a lower number repeats nothing.
    sent.packet(9, 5, &[stream(8, 2, b"cd")], true, PACKETS);
    sent.packet(8, 6, &[stream(8, 0, b"ab")], true, PACKETS);
    acknowledge(&mut sent, &[(9, 0)]);
    assert_eq!(sent.spurious, 3);
}

#[test]
fn a_packet_that_comes_again_long_after_repeats_nothing() {
    for acknowledged in [false, true] {
        let mut sent = Sent::default();
        let frames = [stream(0, 0, b"abcd")];
        sent.packet(3, 0, &frames, true, PACKETS);
        if acknowledged {
            acknowledge(&mut sent, &[(3, 3)]);
        }
        sent.packet(200, 1, &[stream(4, 0, b"a")], true, PACKETS);
        let payload = sent.packet(3, 2, &frames, true, PACKETS);
        assert!(!payload.is_again() && payload.new_payload == 0);
        acknowledge(&mut sent, &[(3, 3)]);
        assert_eq!(sent.spurious, 0, "{acknowledged}");
    }
}

#[test]
fn a_datagram_is_a_retransmission_if_nothing_in_it_is_new() {
    let mut sent = Sent::default();
    let mut take = |number, frames: &[Frame<'_>]| {
        let payload = sent.packet(number, 0, frames, true, PACKETS);
        (payload.is_again(), payload.has_payload, payload.new_payload)
    };
    assert_eq!(take(0, &[stream(0, 0, b"abcd")]), (false, true, 4));
    // Packet 1 with bytes 4..8 was lost before the capture.
    assert_eq!(take(2, &[stream(0, 8, b"ijkl")]), (false, true, 4));
    assert_eq!(take(3, &[stream(0, 4, b"efgh")]), (true, true, 4));
    assert_eq!(take(4, &[stream(0, 0, b"abcd")]), (true, true, 0));
    assert_eq!(
        take(5, &[stream(0, 0, b"ab"), stream(4, 0, b"x")]),
        (false, true, 1)
    );
    // Packet 6 was overtaken by 7, and repeats nothing.
    assert_eq!(take(7, &[stream(8, 2, b"cd")]), (false, true, 2));
    assert_eq!(take(6, &[stream(8, 0, b"ab")]), (false, true, 2));
    let crypto = Frame::Crypto {
        offset: 0,
        data: b"hello",
    };
    assert_eq!(take(8, std::slice::from_ref(&crypto)), (false, false, 0));
    assert_eq!(take(9, &[crypto]), (true, false, 0));
    let datagram = Frame::Datagram { data: b"dg" };
    assert_eq!(take(10, std::slice::from_ref(&datagram)), (false, true, 2));
    assert_eq!(take(11, &[datagram, stream(0, 0, b"ab")]), (false, true, 2));
    assert_eq!(take(12, &[Frame::Ping]), (false, false, 0));
}

#[test]
fn memory_is_bounded() {
    let mut sent = Sent::default();
    for number in 0..5000 {
        sent.packet(
            number,
            0,
            &[stream(number, 0, b"a"), stream(1 << 40, 0, b"a")],
            true,
            PACKETS,
        );
    }
    assert_eq!(sent.packets.len(), 256);
    assert_eq!((sent.streams.len(), sent.repeated.len()), (256, 256));
}

#[test]
fn few_pieces_are_remembered_of_packets_with_many() {
    let mut sent = Sent::default();
    for number in 0..1000 {
        // A packet has 100 single bytes with gaps on one stream, half of which repeat the packet before, and a byte on
        // each of 100 streams.
        let of_one = (0..100).map(|n| stream(0, 100 * number + 2 * n, b"a"));
        let of_many = (0..100).map(|n| stream(4 * n, number, b"a"));
        let frames: Vec<Frame<'_>> = of_one.chain(of_many).collect();
        let payload = sent.packet(number, 0, &frames, true, PACKETS);
        assert!(payload.brings && payload.new_payload > 0);
        assert!(sent.carried.len() <= PIECES_REMEMBERED * PACKETS);
    }
    assert!(sent.is_scattered && sent.packets.len() == PACKETS / 4);
}

#[test]
fn a_packet_has_its_bytes_in_as_few_pieces_as_possible() {
    let of = |stream, start, end| Carried { stream, start, end };
    let many = |gap: u64| (0..20).map(|n| of(7, gap * n, gap * n + 5)).collect();
    let streams = |count: u64| (0..count).map(|id| of(id, 3, 4)).collect();
    let cases = [
        (vec![of(0, 4, 8)], 1, (0, 4, 8), false),
        // In disorder, as some clients send a ClientHello.
        (vec![of(0, 4, 8), of(0, 0, 4)], 1, (0, 0, 8), false),
        (vec![of(0, 4, 8), of(0, 0, 3)], 2, (0, 0, 3), false),
        (vec![of(4, 4, 8), of(0, 0, 4)], 2, (0, 0, 4), false),
        (many(5), 1, (7, 0, 100), false),
        (many(6), 1, (7, 0, 119), true),
        (streams(17), PIECES, (0, 3, 4), true),
    ];
    for (carried, count, first, scattered) in cases {
        let (pieces, is_scattered) = pieces(&carried);
        let found = pieces[0];
        assert_eq!((found.stream, found.start, found.end), first, "{carried:?}");
        assert_eq!((pieces.len(), is_scattered), (count, scattered));
    }
}

fn crypto(offset: u64, data: &[u8]) -> Frame<'_> {
    Frame::Crypto { offset, data }
}

#[test]
fn bytes_overlap_on_one_stream_if_they_share_some() {
    let of = |stream, start, end| Carried { stream, start, end };
    for (a, b, overlaps) in [
        (of(0, 0, 4), of(0, 0, 4), true),
        (of(0, 0, 4), of(0, 3, 8), true),
        (of(0, 0, 4), of(0, 4, 8), false),
        (of(0, 0, 9), of(0, 4, 5), true),
        (of(0, 0, 4), of(4, 0, 4), false),
    ] {
        assert_eq!(a.overlaps(&b), overlaps, "{a:?} {b:?}");
        assert_eq!(b.overlaps(&a), overlaps, "{b:?} {a:?}");
    }
}

#[test]
fn frames_with_bytes_carry_them() {
    for (frame, expected) in [
        (crypto(5, b"abc"), Some((CRYPTO, 5, 8))),
        (stream(4, 7, b"ab"), Some((4, 7, 9))),
        (crypto(5, b""), None),
        (stream(4, 7, b""), None),
        (Frame::Ping, None),
        (Frame::Datagram { data: b"abc" }, None),
    ] {
        let carried = Carried::of(&frame).map(|piece| (piece.stream, piece.start, piece.end));
        assert_eq!(carried, expected, "{frame:?}");
    }
}

#[test]
fn samples_come_of_any_number_of_packets() {
    // Ranges of the ACK; when the largest was sent, of packets 10 to 13 sent at 100 to 103.
    for (ranges, sent_ns) in [
        (&[(10, 10)][..], Some(100)),
        (&[(11, 10)], Some(101)),
        (&[(12, 10)], Some(102)),
        (&[(13, 13)], Some(103)),
        (&[(13, 13), (11, 10)], Some(103)),
        (&[(13, 0)], Some(103)),
        (&[(9, 0)], None),
        (&[(14, 14)], None),
        // The largest is not known.
        (&[(14, 10)], None),
    ] {
        let mut sent = Sent::default();
        for number in 10..14 {
            let ns = 90 + number as i64;
            sent.packet(number, ns, &[Frame::Ping], false, PACKETS);
        }
        let expected = sent_ns.map(|sent_ns| NewlyAcknowledged { sent_ns });
        assert_eq!(acknowledge(&mut sent, ranges), expected, "{ranges:?}");
    }
}

#[test]
fn each_range_marks_its_own_packets_only() {
    let mut sent = Sent::default();
    for number in 0..8 {
        sent.packet(number, 0, &[Frame::Ping], false, PACKETS);
    }
    acknowledge(&mut sent, &[(6, 5), (2, 1)]);
    let marked: Vec<u64> = sent
        .packets
        .iter()
        .filter(|packet| packet.is_acknowledged)
        .map(|packet| packet.number)
        .collect();
    assert_eq!(marked, [1, 2, 5, 6]);
}

#[test]
fn a_packet_elicits_an_acknowledgement_by_any_of_its_frames() {
    let padding = Frame::Padding { length: 2 };
    for (frames, is_sample) in [
        (&[padding.clone(), Frame::Ping][..], true),
        (&[Frame::Ping, padding.clone()], true),
        (&[padding], false),
        (&[], false),
    ] {
        let mut sent = Sent::default();
        sent.packet(0, 10, frames, false, PACKETS);
        assert_eq!(acknowledge(&mut sent, &[(0, 0)]).is_some(), is_sample);
    }
}

#[test]
fn packets_that_come_late_stand_in_the_order_of_their_numbers() {
    let mut sent = Sent::default();
    let pair = [stream(0, 0, b"ab"), stream(4, 0, b"cd")];
    for number in [3, 1, 2] {
        sent.packet(number, 0, &pair, true, PACKETS);
    }
    let numbers: Vec<u64> = sent.packets.iter().map(|packet| packet.number).collect();
    assert_eq!((numbers, sent.latest), (vec![1, 2, 3], Some(3)));
    let carried = sent.carried.iter().map(|(n, piece)| (*n, piece.stream));
    assert_eq!(
        carried.collect::<Vec<_>>(),
        [(1, 0), (1, 4), (2, 0), (2, 4), (3, 0), (3, 4)]
    );
}

#[test]
fn with_a_packet_its_bytes_are_forgotten() {
    let mut sent = Sent::default();
    let pair = [stream(0, 0, b"ab"), stream(4, 0, b"cd")];
    sent.packet(0, 0, &pair, true, 2);
    sent.packet(1, 0, &[Frame::Ping], true, 2);
    assert_eq!((sent.packets.len(), sent.carried.len()), (2, 2));
    sent.packet(2, 0, &pair[..1], true, 2);
    assert_eq!((sent.packets.len(), sent.carried.len()), (2, 1));
    // Packet 0 is forgotten, so that the next one repeats packet 2.
    sent.packet(3, 0, &pair[..1], true, 2);
    assert_eq!(sent.repeated, [(0, 1), (2, 1)]);
}

#[test]
fn without_bytes_only_numbers_and_times_are_remembered() {
    let mut sent = Sent::default();
    let frames = [stream(0, 0, b"ab"), Frame::Datagram { data: b"cd" }];
    let payload = sent.packet(0, 0, &frames, false, PACKETS);
    assert_eq!(payload, PayloadSummary::default());
    assert!(sent.carried.is_empty() && sent.streams.is_empty());
    assert!(sent.packets[0].is_eliciting);
}

/// (packet number, stream, offset, end) in the order of arrival; numbers acknowledged then; spurious ones.
type Story<'a> = (&'a [(u64, u64, u64, usize)], &'a [(u64, u64)], u32);

#[test]
fn repetitions_count_for_the_packet_that_carried_the_bytes_first() {
    let stories: &[Story<'_>] = &[
        (&[(0, 0, 0, 4), (1, 0, 0, 4)], &[(0, 0)], 1),
        (&[(0, 0, 0, 4), (1, 0, 0, 4)], &[(1, 1)], 0),
        (&[(0, 0, 0, 4), (1, 0, 0, 4), (2, 0, 0, 4)], &[(0, 0)], 2),
        // Packet 2 repeats packet 0, not 1.
        (&[(0, 0, 0, 4), (1, 0, 0, 4), (2, 0, 0, 4)], &[(1, 1)], 0),
        (&[(0, 0, 0, 4), (1, 0, 2, 8)], &[(0, 0)], 1),
        (&[(0, 0, 0, 4), (1, 0, 4, 8)], &[(0, 0)], 0),
        (&[(0, 0, 0, 4), (1, 4, 0, 4)], &[(0, 0)], 0),
        (&[(0, 0, 4, 8), (1, 0, 0, 4)], &[(0, 0)], 0),
        // Two packets repeat different ones.
        (
            &[(0, 0, 0, 4), (1, 0, 4, 8), (2, 0, 0, 4), (3, 0, 4, 8)],
            &[(1, 0)],
            2,
        ),
        (
            &[(0, 0, 0, 4), (1, 0, 4, 8), (2, 0, 0, 4), (3, 0, 4, 8)],
            &[(1, 1)],
            1,
        ),
        // Packet 0 arrives late. Packets 1 and 2 repeat it. Packet 2 counted as a repetition of packet 1 before.
        (&[(1, 0, 0, 4), (2, 0, 0, 4), (0, 0, 0, 4)], &[(0, 0)], 1),
        (&[(1, 0, 0, 4), (2, 0, 0, 4), (0, 0, 0, 4)], &[(1, 0)], 2),
        (&[(1, 0, 0, 4), (2, 0, 4, 8), (0, 0, 0, 8)], &[(0, 0)], 2),
        (&[(1, 0, 0, 4), (2, 0, 4, 8), (0, 0, 0, 4)], &[(0, 0)], 1),
        (&[(1, 0, 4, 8), (0, 0, 0, 4)], &[(1, 0)], 0),
        // Each packet arrives before the packet that it repeats. Each repetition counts for one packet only.
        (&[(5, 0, 0, 4), (4, 0, 0, 4), (3, 0, 0, 4)], &[(3, 3)], 1),
        (&[(5, 0, 0, 4), (4, 0, 0, 4), (3, 0, 0, 4)], &[(4, 3)], 2),
    ];
    for (packets, acknowledged, spurious) in stories {
        let mut sent = Sent::default();
        for (number, id, start, end) in *packets {
            let data = vec![0; end - *start as usize];
            sent.packet(*number, 0, &[stream(*id, *start, &data)], true, PACKETS);
        }
        assert_eq!(sent.spurious, 0);
        acknowledge(&mut sent, acknowledged);
        assert_eq!(sent.spurious, *spurious, "{packets:?} {acknowledged:?}");
        acknowledge(&mut sent, acknowledged);
        assert_eq!(sent.spurious, *spurious, "counted once");
    }
}

#[test]
fn what_repeats_an_acknowledged_packet_counts_at_once() {
    let mut sent = Sent::default();
    sent.packet(0, 0, &[stream(0, 0, b"abcd")], true, PACKETS);
    acknowledge(&mut sent, &[(0, 0)]);
    for (number, spurious) in [(1, 1), (2, 2)] {
        sent.packet(number, 0, &[stream(0, 3, b"d")], true, PACKETS);
        assert_eq!(sent.spurious, spurious);
    }
    assert!(sent.packets.iter().skip(1).all(|packet| packet.is_repeat));
}

#[test]
fn a_late_packet_that_nothing_repeats_takes_no_place() {
    let mut sent = Sent::default();
    sent.packet(9, 0, &[stream(0, 4, b"efgh")], true, PACKETS);
    sent.packet(8, 0, &[stream(0, 0, b"abcd")], true, PACKETS);
    assert!(sent.repeated.is_empty());
    assert!(!sent.packets[0].is_repeat && !sent.packets[1].is_repeat);
}

#[test]
fn a_late_packet_is_compared_with_those_before_it() {
    for (first, late, is_again) in [
        // (stream, offset, bytes) of packet 0 and of packet 1. Packet 1 arrives after packet 2.
        ((0, 0, b"abcd"), (0, 0, b"abcd"), true),
        ((0, 0, b"abcd"), (0, 1, b"abcd"), false),
        ((4, 0, b"abcd"), (0, 0, b"abcd"), false),
        ((0, 4, b"abcd"), (0, 0, b"abcd"), true),
    ] {
        let mut sent = Sent::default();
        sent.packet(0, 0, &[stream(first.0, first.1, first.2)], true, PACKETS);
        sent.packet(2, 0, &[stream(0, 100, b"xy")], true, PACKETS);
        let payload = sent.packet(1, 0, &[stream(late.0, late.1, late.2)], true, PACKETS);
        assert_eq!(payload.is_again(), is_again, "{first:?} {late:?}");
    }
}

#[test]
fn packets_of_a_datagram_are_summed() {
    let mut sent = Sent::default();
    let mut summary = PayloadSummary::default();
    assert!(!summary.is_again());
    for (number, frame, expected) in [
        (0, Frame::Ping, (false, false, 0)),
        (1, crypto(0, b"ab"), (false, false, 0)),
        (2, stream(0, 0, b"abc"), (false, true, 3)),
        (3, stream(0, 0, b"abc"), (false, true, 3)),
        (4, stream(0, 0, b"abcde"), (false, true, 5)),
    ] {
        summary.add(&sent.packet(number, 0, &[frame], true, PACKETS));
        assert_eq!(
            (summary.is_again(), summary.has_payload, summary.new_payload),
            expected
        );
    }
    let mut summary = PayloadSummary::default();
    for number in [5, 6] {
        summary.add(&sent.packet(number, 0, &[crypto(0, b"ab")], true, PACKETS));
        assert!(summary.is_again() && !summary.has_payload);
    }
    summary.add(&sent.packet(7, 0, &[Frame::Datagram { data: b"x" }], true, PACKETS));
    assert!(!summary.is_again() && summary.has_payload && summary.new_payload == 1);
    summary.add(&sent.packet(8, 0, &[Frame::Ping], true, PACKETS));
    assert!(!summary.is_again() && summary.has_payload && summary.new_payload == 1);
}

#[test]
fn streams_are_forgotten_oldest_first_above_256() {
    let mut sent = Sent::default();
    for id in 0..256 {
        sent.packet(id, 0, &[stream(id, 0, b"a")], true, PACKETS);
    }
    assert_eq!((sent.streams.len(), sent.highest(0)), (256, Some(1)));
    sent.packet(256, 0, &[stream(256, 0, b"abc")], true, PACKETS);
    assert_eq!((sent.streams.len(), sent.highest(0)), (256, None));
    assert_eq!((sent.highest(1), sent.highest(256)), (Some(1), Some(3)));
}

#[test]
fn after_the_end_only_streams_are_kept() {
    for (frame, is_kept) in [
        (crypto(0, b"ab"), false),
        (Frame::Ping, false),
        (stream(0, 0, b"ab"), true),
    ] {
        let mut sent = Box::new(Sent::default());
        for number in 0..3 {
            let frames = [crypto(0, b"xy"), frame.clone()];
            sent.packet(number, 0, &frames, true, PACKETS);
        }
        assert_eq!(sent.repeated.len(), 1);
        let kept = sent.end();
        assert_eq!(kept.is_some(), is_kept, "{frame:?}");
        if let Some(kept) = kept {
            let left = (kept.packets.len(), kept.carried.len(), kept.repeated.len());
            assert_eq!((left, kept.streams.len()), ((0, 0, 0), 2));
        }
    }
}
