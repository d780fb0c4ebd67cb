//! Round-trip times and repetitions of packets with known times.

use super::*;
use firstflight_wire::{Frames, Writer, write_ack};

const MS: i64 = 1_000_000;

fn ack(recovery: &mut Recovery, space: Space, ns: i64, number: u64, largest: u64, delay: u64) {
    let mut buf = [0; 32];
    let mut w = Writer::new(&mut buf);
    write_ack(&mut w, largest, delay, &[(largest, largest)]).unwrap();
    let frames: Vec<Frame<'_>> = Frames::new(w.written()).map(Result::unwrap).collect();
    recovery.packet(space, false, number, ns, &frames, true);
}

#[test]
fn what_comes_after_a_close_is_new_or_sent_again() {
    let mut r = Recovery::default();
    let take = |r: &mut Recovery, number, offset, data| {
        let frame = Frame::Stream {
            id: 0,
            offset,
            fin: false,
            data,
        };
        let payload = r.packet(Space::Application, false, number, 0, &[frame], true);
        (payload.is_again(), payload.has_payload, payload.new_payload)
    };
    assert_eq!(take(&mut r, 0, 0, b"abcd"), (false, true, 4));
    assert_eq!(take(&mut r, 2, 8, b"ijkl"), (false, true, 4));
    r.end();
    // Overtaken by packet 2.
    assert_eq!(take(&mut r, 1, 4, b"efgh"), (false, true, 4));
    assert_eq!(take(&mut r, 3, 0, b"abcd"), (true, true, 0));
    assert_eq!(take(&mut r, 4, 12, b"mn"), (false, true, 2));
    r.end();
    assert_eq!(take(&mut r, 5, 12, b"mn"), (true, true, 0));
    assert_eq!(r.spurious(), (Some(0), Some(0)));

    let mut r = Recovery::default();
    take(&mut r, 0, 0, b"abcd");
    take(&mut r, 1, 0, b"abcd");
    let mut buf = [0; 32];
    let mut w = Writer::new(&mut buf);
    write_ack(&mut w, 1, 0, &[(1, 0)]).unwrap();
    let frames: Vec<Frame<'_>> = Frames::new(w.written()).map(Result::unwrap).collect();
    r.packet(Space::Application, true, 0, 1, &frames, true);
    assert_eq!(r.spurious(), (Some(0), Some(1)));
    r.end();
    assert_eq!(take(&mut r, 2, 0, b"abcd"), (true, true, 0));
    assert_eq!(r.spurious(), (Some(0), Some(1)), "counted once");
}

#[test]
fn packets_are_remembered_until_many_more_are_on_their_way() {
    for (remembered, samples) in [(0, 256), (1000, 1000)] {
        let mut r = Recovery {
            remembered,
            ..Recovery::default()
        };
        for n in 0..1000 {
            let ns = n as i64;
            r.packet(Space::Application, true, n, ns, &[Frame::Ping], true);
        }
        for n in 0..1000 {
            ack(&mut r, Space::Application, 40 * MS, n, n, 0);
        }
        assert_eq!(r.rtt.samples, samples);
    }
    assert_eq!(remembered(1), 4096);
    assert!(remembered(8000) < 256);
}

#[test]
fn delay_is_ignored_in_initial_and_capped_after_confirmation() {
    let mut r = Recovery::default();
    r.packet(Space::Initial, true, 0, 0, &[Frame::Ping], true);
    ack(&mut r, Space::Initial, 40 * MS, 0, 0, 2500);
    assert_eq!(
        r.samples[..],
        [Sample {
            ns: 40 * MS,
            rtt_ns: 40 * MS,
            pto_ns: 120 * MS
        }]
    );
    r.handshake_confirmed = true;
    r.packet(Space::Application, true, 0, 50 * MS, &[Frame::Ping], true);
    // The ACK states 100 ms of delay, 25 are allowed: adjusted 73 - 25 = 48.
    ack(&mut r, Space::Application, 123 * MS, 0, 0, 12_500);
    assert_eq!((r.rtt.smoothed_ns, r.rtt.variation_ns), (41 * MS, 17 * MS));
    assert_eq!(r.samples[1].pto_ns, (41 + 68 + 25) * MS);
    // An absurd delay or exponent is no reason to fail.
    r.handshake_confirmed = false;
    r.ack_delay.exponent = 1 << 40;
    r.packet(Space::Application, true, 1, 130 * MS, &[Frame::Ping], true);
    ack(&mut r, Space::Application, 170 * MS, 1, 1, (1 << 62) - 1);
    assert_eq!(r.rtt.samples, 3);
}

#[test]
fn fewer_packets_are_remembered_of_each_of_many_connections() {
    for (connections, packets) in [
        (0, 4096),
        (1, 4096),
        (64, 4096),
        (65, 4032),
        (1024, 256),
        (1 << 18, 1),
        (1 << 19, 0),
    ] {
        assert_eq!(remembered(connections), packets, "{connections}");
    }
}

#[test]
fn samples_are_adjusted_by_what_the_space_and_the_server_allow() {
    use Space::{Application, Handshake, Initial};
    // Space, the server's exponent and max_ack_delay, whether the handshake is confirmed, ACK Delay as sent, and the
    // part that counts, in µs.
    let cases = [
        (Initial, 3, 25, false, 2500, 0),
        (Initial, 3, 25, true, 2500, 0),
        (Handshake, 10, 25, false, 2500, 20_000),
        (Handshake, 10, 25, false, 12_500, 100_000),
        (Application, 3, 25, false, 2500, 20_000),
        (Application, 4, 25, false, 2500, 40_000),
        (Application, 0, 25, false, 2500, 2_500),
        (Application, 3, 25, false, 12_500, 100_000),
        (Application, 3, 25, true, 12_500, 25_000),
        (Application, 3, 25, true, 2500, 20_000),
        (Application, 3, 50, true, 12_500, 50_000),
        // No more than a transport parameter may hold (RFC 9000 18.2): 2^14 ms.
        (Application, 3, 1 << 20, true, 12_500_000, 16_384_000),
    ];
    let before = Rtt {
        latest_ns: 40 * MS,
        min_ns: 40 * MS,
        smoothed_ns: 40 * MS,
        variation_ns: 20 * MS,
        samples: 1,
    };
    for (space, exponent, max_ms, handshake_confirmed, delay, counts_us) in cases {
        let mut r = Recovery {
            rtt: before,
            ack_delay: AckDelay { exponent, max_ms },
            handshake_confirmed,
            ..Recovery::default()
        };
        r.packet(space, true, 0, 7 * MS, &[Frame::Ping], true);
        ack(&mut r, space, 120_007 * MS, 0, 0, delay);
        let mut expected = before;
        expected.sample(120_000 * MS, counts_us * 1000);
        assert_eq!(r.rtt, expected, "{space:?} {exponent} {max_ms} {delay}");
        let max_ack_delay_ns = match space {
            Application => i64::try_from(max_ms.min(16_384)).unwrap() * MS,
            _ => 0,
        };
        let sample = Sample {
            ns: 120_007 * MS,
            rtt_ns: 120_000 * MS,
            pto_ns: expected.pto_ns(max_ack_delay_ns),
        };
        assert_eq!(
            r.samples[..],
            [sample],
            "{space:?} {exponent} {max_ms} {delay}"
        );
    }
}

#[test]
fn round_trips_below_zero_or_above_an_hour_are_no_samples() {
    for (sent_ns, acknowledged_ns, is_sample) in [
        (5, 4, false),
        (5, 5, true),
        (5, 3_600_000_000_005, true),
        (5, 3_600_000_000_006, false),
    ] {
        let mut r = Recovery::default();
        r.packet(Space::Initial, true, 0, sent_ns, &[Frame::Ping], false);
        ack(&mut r, Space::Initial, acknowledged_ns, 0, 0, 0);
        let samples = usize::from(is_sample);
        assert_eq!(
            (r.rtt.samples as usize, r.samples.len()),
            (samples, samples),
            "{acknowledged_ns}"
        );
    }
}

#[test]
fn the_first_64_samples_are_kept_and_all_are_counted() {
    let mut r = Recovery::default();
    for number in 0..66 {
        let ns = 100 * number as i64;
        r.packet(Space::Application, true, number, ns, &[Frame::Ping], true);
        ack(&mut r, Space::Application, ns + 40, number, number, 0);
    }
    assert_eq!((r.samples.len(), r.rtt.samples), (64, 66));
    assert_eq!(r.samples[63].ns, 6340);
}

#[test]
fn only_acknowledgements_of_the_server_give_samples() {
    let mut r = Recovery::default();
    r.packet(Space::Initial, false, 0, 0, &[Frame::Ping], true);
    let mut buf = [0; 32];
    let mut w = Writer::new(&mut buf);
    write_ack(&mut w, 0, 0, &[(0, 0)]).unwrap();
    let frames: Vec<Frame<'_>> = Frames::new(w.written()).map(Result::unwrap).collect();
    r.packet(Space::Initial, true, 0, 40, &frames, true);
    assert_eq!((r.samples.len(), r.rtt.samples), (0, 0));
    // Of another space.
    r.packet(Space::Initial, true, 1, 50, &[Frame::Ping], true);
    ack(&mut r, Space::Handshake, 90, 0, 1, 0);
    assert_eq!(r.rtt.samples, 0);
    ack(&mut r, Space::Initial, 90, 1, 1, 0);
    assert_eq!((r.rtt.samples, r.rtt.latest_ns), (1, 40));
}

#[test]
fn what_a_packet_carries_is_of_interest_with_bytes_only() {
    let frames = [Frame::Stream {
        id: 0,
        offset: 0,
        fin: false,
        data: b"abcd",
    }];
    for (from_client, with_bytes, new_payload) in [
        (true, true, 4),
        (false, true, 4),
        (true, false, 0),
        (false, false, 0),
    ] {
        let mut r = Recovery::default();
        let payload = r.packet(Space::Application, from_client, 0, 0, &frames, with_bytes);
        assert_eq!(
            (payload.has_payload, payload.new_payload),
            (new_payload > 0, new_payload)
        );
        // Packets of the client are always remembered, for samples. Packets of the server are remembered only with
        // bytes.
        let [client, server] = [&r.client, &r.server].map(|spaces| spaces[2].is_some());
        assert_eq!(client, from_client);
        assert_eq!(server, !from_client && with_bytes);
    }
}

#[test]
fn the_last_ack_of_a_packet_that_acknowledges_something_new_counts() {
    let mut r = Recovery::default();
    for number in 0..3 {
        let ns = 10 * number as i64;
        r.packet(Space::Application, true, number, ns, &[Frame::Ping], true);
    }
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    for largest in [0, 1, 0] {
        write_ack(&mut w, largest, 0, &[(largest, largest)]).unwrap();
    }
    let frames: Vec<Frame<'_>> = Frames::new(w.written()).map(Result::unwrap).collect();
    r.packet(Space::Application, false, 0, 100, &frames, true);
    assert_eq!((r.rtt.samples, r.rtt.latest_ns), (1, 90));
}

#[test]
fn repetitions_of_all_spaces_and_both_sides_are_summed_and_frozen_by_the_end() {
    let crypto = Frame::Crypto {
        offset: 0,
        data: b"hello",
    };
    let mut r = Recovery::default();
    // (space, sent by the client): packets 0 to n carry the same bytes, 0 is acknowledged.
    for (space, by_client, packets) in [
        (Space::Initial, true, 2),
        (Space::Handshake, true, 4),
        (Space::Application, true, 2),
        (Space::Initial, false, 3),
        (Space::Application, false, 5),
    ] {
        for number in 0..packets {
            let frames = std::slice::from_ref(&crypto);
            r.packet(space, by_client, number, 0, frames, true);
        }
        let mut buf = [0; 32];
        let mut w = Writer::new(&mut buf);
        write_ack(&mut w, 0, 0, &[(0, 0)]).unwrap();
        let frames: Vec<Frame<'_>> = Frames::new(w.written()).map(Result::unwrap).collect();
        r.packet(space, !by_client, 50, 1, &frames, true);
    }
    assert_eq!(r.spurious(), (Some(5), Some(6)));
    let samples = r.rtt.samples;
    assert_eq!(samples, 3);
    r.packet(Space::Initial, true, 9, 5, &[Frame::Ping], true);
    r.packet(Space::Application, true, 9, 5, &[Frame::Ping], true);
    r.end();
    assert!(r.client.iter().chain(&r.server).all(Option::is_none));
    assert_eq!((r.spurious(), r.samples.len()), ((Some(5), Some(6)), 3));
    // Nothing more of Initial and Handshake is looked at, and no ACK counts.
    let late = r.packet(Space::Initial, false, 99, 6, &[crypto], true);
    assert_eq!(late, PayloadSummary::default());
    for space in [Space::Initial, Space::Application] {
        ack(&mut r, space, 8, 98, 9, 0);
    }
    assert_eq!((r.spurious(), r.rtt.samples), ((Some(5), Some(6)), samples));
    assert!(r.client[0].is_none() && r.server[0].is_none());
}

#[test]
fn of_bytes_in_many_pieces_it_is_not_known_what_was_sent_again() {
    let piece = |n: u64| Frame::Stream {
        id: 0,
        offset: 2 * n,
        fin: false,
        data: b"a",
    };
    for (pieces, from_client, expected) in [
        (16, true, (Some(1), Some(0))),
        (17, true, (None, Some(0))),
        (17, false, (Some(0), None)),
    ] {
        let frames: Vec<Frame<'_>> = (0..pieces).map(piece).collect();
        let mut r = Recovery::default();
        for number in 0..2 {
            r.packet(Space::Application, from_client, number, 0, &frames, true);
        }
        let mut buf = [0; 32];
        let mut w = Writer::new(&mut buf);
        write_ack(&mut w, 0, 0, &[(0, 0)]).unwrap();
        let acks: Vec<Frame<'_>> = Frames::new(w.written()).map(Result::unwrap).collect();
        r.packet(Space::Application, !from_client, 0, 1, &acks, true);
        assert_eq!(r.spurious(), expected, "{pieces}");
        r.end();
        assert_eq!(r.spurious(), expected, "{pieces}");
    }
}

#[test]
fn a_retry_makes_recovery_begin_again() {
    let mut r = Recovery {
        handshake_confirmed: true,
        ..Recovery::default()
    };
    r.packet(Space::Initial, true, 0, 0, &[Frame::Ping], true);
    ack(&mut r, Space::Initial, 40, 0, 0, 0);
    r.packet(Space::Initial, true, 1, 50, &[Frame::Ping], true);
    r.begin_again();
    assert_eq!((r.rtt, r.samples.len()), (Rtt::default(), 0));
    assert!(!r.handshake_confirmed);
    ack(&mut r, Space::Initial, 90, 0, 1, 0);
    assert_eq!(r.rtt.samples, 0);
}

#[test]
fn the_server_delays_by_the_defaults_unless_it_says_otherwise() {
    let default = AckDelay::default();
    assert_eq!((default.exponent, default.max_ms), (3, 25));
}
