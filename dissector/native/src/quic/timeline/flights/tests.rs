//! Flights of made-up handshakes.

use super::*;

const MS: i64 = 1_000_000;

fn crypto(offset: u64) -> Frame<'static> {
    bytes(offset, 100)
}

fn bytes(offset: u64, length: usize) -> Frame<'static> {
    Frame::Crypto {
        offset,
        data: &[0; 1000][..length],
    }
}

#[test]
fn an_initial_without_new_bytes_is_a_probe_if_it_asks_for_an_acknowledgement() {
    let mut flights = Flights::default();
    let mut sent = |ns, frames: &[Frame<'_>], heard, awaits_hello| {
        flights.client_initial(ns, frames, heard, awaits_hello);
        (flights.default_pto_ns, flights.probes)
    };
    // Two datagrams with one ClientHello: the timeout counts from the second.
    assert_eq!(sent(0, &[crypto(0)], false, false), (None, 0));
    assert_eq!(sent(2, &[crypto(100)], false, false), (None, 0));
    let padding = Frame::Padding { length: 9 };
    assert_eq!(
        sent(100, std::slice::from_ref(&padding), false, false),
        (None, 0)
    );
    assert_eq!(sent(202, &[Frame::Ping], false, false), (Some(200), 0));
    assert_eq!(sent(602, &[crypto(0)], false, false), (Some(200), 0));
    // After the first ACK.
    assert_eq!(sent(700, &[Frame::Ping], true, true), (Some(200), 1));
    assert_eq!(
        sent(701, &[crypto(0), padding.clone()], true, true),
        (Some(200), 2)
    );
    assert_eq!(sent(702, &[padding], true, true), (Some(200), 2));
    // A second ClientHello is no probe.
    assert_eq!(sent(703, &[crypto(200)], true, true), (Some(200), 2));
    // After the ServerHello.
    assert_eq!(sent(704, &[Frame::Ping], true, false), (Some(200), 2));
}

#[test]
fn a_client_hello_whose_later_bytes_come_first_is_no_probe() {
    for (heard, awaits_hello, expected) in [
        (false, false, (Some(300), 0)),
        // The first datagram was acknowledged before the second was sent.
        (true, true, (None, 1)),
    ] {
        let mut flights = Flights::default();
        flights.client_initial(0, &[bytes(1500, 300), bytes(0, 700)], false, false);
        flights.client_initial(2, &[bytes(700, 800)], heard, awaits_hello);
        assert_eq!((flights.default_pto_ns, flights.probes), (None, 0));
        flights.client_initial(302, &[Frame::Ping], heard, awaits_hello);
        assert_eq!((flights.default_pto_ns, flights.probes), expected);
    }
}

#[test]
fn of_bytes_in_too_many_pieces_nobody_knows_which_come_again() {
    let mut flights = Flights::default();
    for n in 1..100 {
        flights.client_initial(n, &[bytes(2 * n as u64, 1)], false, false);
        assert_eq!(flights.is_scattered, n > 64, "{n}");
    }
}

#[test]
fn once_the_server_was_heard_nothing_shows_the_default() {
    let mut flights = Flights::default();
    flights.client_initial(0, &[crypto(0)], false, false);
    flights.client_initial(200, &[crypto(0)], true, false);
    assert_eq!(flights.default_pto_ns, None);
}

#[test]
fn the_second_flight_goes_from_a_handshake_packet_to_a_stream() {
    let stream = Frame::Stream {
        id: 2,
        offset: 0,
        fin: false,
        data: &[],
    };
    let mut flights = Flights::default();
    let mut seen = |ordinal, frames: &[Frame<'_>]| {
        flights.client_application(ordinal, frames);
        (flights.second, flights.second_end)
    };
    // In a 0-RTT packet.
    assert_eq!(seen(1, std::slice::from_ref(&stream)), (None, None));
    flights.client_handshake(3);
    flights.client_handshake(4);
    let mut seen = |ordinal, frames: &[Frame<'_>]| {
        flights.client_application(ordinal, frames);
        (flights.second, flights.second_end)
    };
    assert_eq!(seen(4, &[Frame::Ping]), (Some(3), None));
    assert_eq!(seen(5, &[Frame::Ping, stream.clone()]), (Some(3), Some(5)));
    assert_eq!(seen(6, &[stream]), (Some(3), Some(5)));
}

/// Feeds datagrams of (ms, bytes, from the client, brings bytes); the last one of the client has a Handshake
/// packet.
fn fed(datagrams: &[(i64, usize, bool, bool)]) -> Flights {
    let last = datagrams.iter().rposition(|d| d.2);
    fed_until(last.unwrap(), datagrams)
}

/// The same; the datagram with the Handshake packet is `validates`.
fn fed_until(validates: usize, datagrams: &[(i64, usize, bool, bool)]) -> Flights {
    let mut flights = Flights::default();
    for (i, &(ms, bytes, from_client, brings)) in datagrams.iter().enumerate() {
        if i == validates {
            flights.client_handshake(2);
        }
        flights.datagram(ms * MS, bytes, from_client, brings);
    }
    flights
}

#[test]
fn a_server_is_blocked_from_its_limit_to_its_next_datagram() {
    let flights = fed(&[
        (0, 1200, true, true),
        (10, 1200, false, true),
        (10, 1200, false, true),
        (10, 1200, false, true),
        (11, 50, true, false),
        (21, 400, false, true),
        (30, 400, false, true),
    ]);
    assert_eq!(flights.blocked_ns(0), 11 * MS);
    // At the client: its datagram of 11 ms reaches the server after the server sent the datagrams of 10 ms.
    assert_eq!(flights.blocked_ns(10 * MS), 11 * MS);
}

#[test]
fn a_server_is_not_blocked_without_more_to_send_or_below_its_limit() {
    let at_limit = [(0, 1200, true, true), (10, 3600, false, true)];
    for (next, blocked_ms) in [((30, 1, false, true), 20), ((30, 1, false, false), 0)] {
        let flights = fed(&[at_limit[0], at_limit[1], (20, 50, true, false), next]);
        assert_eq!(flights.blocked_ns(0), blocked_ms * MS);
    }
    let below = [
        (0, 1200, true, true),
        (10, 3500, false, true),
        (20, 50, true, false),
        (30, 100, false, true),
    ];
    assert_eq!(fed(&below).blocked_ns(0), 0);
}

#[test]
fn a_datagram_that_reaches_the_limit_exactly_is_not_beyond_it() {
    let flights = fed(&[
        (0, 1200, true, true),
        (10, 3600, false, true),
        (20, 100, true, false),
        (30, 300, false, true),
        (40, 100, true, false),
        (50, 100, false, true),
    ]);
    assert_eq!(flights.blocked_ns(0), 40 * MS);
}

#[test]
fn what_a_client_sends_before_a_datagram_comes_had_not_been_received_when_it_was_sent() {
    let flights = fed(&[
        (0, 1200, true, true),
        (100, 1800, false, true),
        (101, 1200, true, false),
        (102, 1800, false, true),
        (200, 1800, false, true),
        (201, 100, true, true),
    ]);
    assert_eq!(flights.blocked_ns(100 * MS), 98 * MS);
    assert_eq!(flights.blocked_ns(0), 0);
}

#[test]
fn what_is_under_way_when_a_client_is_validated_was_sent_before() {
    // At the client: the first Handshake packet is captured at 11 ms, and the server's answer to it arrives at 21 ms.
    let shown = [
        (0, 1200, true, true),
        (10, 1200, false, true),
        (11, 80, true, false),
        (12, 1200, false, true),
        (13, 1200, false, true),
        (14, 80, true, false),
        (21, 1200, false, true),
        (22, 1200, false, true),
        (23, 1200, false, true),
    ];
    let flights = fed_until(2, &shown);
    assert_eq!(flights.blocked_ns(10 * MS), 8 * MS);
    // A datagram beyond the limit was sent after validation, whatever the round-trip time. Later gaps are not waits.
    let mut early = shown;
    (early[6].0, early[7].0) = (20, 100);
    assert_eq!(fed_until(2, &early).blocked_ns(10 * MS), 7 * MS);
    // At the server the packet has been received when it is seen.
    let server = [
        (0, 1200, true, true),
        (1, 3600, false, true),
        (11, 80, true, false),
        (11, 1200, false, true),
        (12, 1200, false, true),
        (13, 1200, false, true),
    ];
    let flights = fed_until(2, &server);
    assert_eq!(flights.blocked_ns(0), 10 * MS);
    // Nothing more is remembered: 1 ms is the longest that its path can be.
    assert_eq!(flights.passed.len(), 5);
}

#[test]
fn a_last_datagram_that_is_longer_than_what_is_left_did_not_wait() {
    let flights = fed(&[
        (0, 1200, true, true),
        (10, 1280, false, true),
        (11, 1280, false, true),
        (12, 1280, false, true),
        (20, 50, true, false),
        (29, 1280, false, true),
    ]);
    assert_eq!(flights.blocked_ns(0), 17 * MS);
    // A shorter one waits until it fits.
    let flights = fed_until(
        9,
        &[
            (0, 1200, true, true),
            (10, 1280, false, true),
            (11, 1280, false, true),
            (14, 1200, true, false),
            (15, 1280, false, true),
        ],
    );
    assert_eq!(flights.blocked_ns(0), 4 * MS);
}

#[test]
fn a_wait_counts_whole_where_some_bytes_were_left_and_the_round_trip_seems_longer() {
    let seen = |third: usize| {
        fed_until(
            2,
            &[
                (0, 1200, true, true),
                (300, 1200, false, true),
                (300, 50, true, false),
                (301, 1200, false, true),
                (302, third, false, true),
                (401, 100, false, true),
                (403, 1200, false, true),
            ],
        )
        .blocked_ns(102 * MS)
    };
    assert_eq!((seen(1200), seen(1190)), (99 * MS, 99 * MS));
}

#[test]
fn an_acknowledgement_at_the_limit_does_not_end_what_is_counted() {
    let flights = fed_until(
        6,
        &[
            (0, 1200, true, true),
            (10, 3600, false, true),
            (11, 50, true, false),
            (15, 50, false, false),
            (21, 1200, true, true),
            (31, 1200, false, true),
            (32, 50, true, false),
        ],
    );
    assert_eq!(flights.blocked_ns(10 * MS), 16 * MS);
}

#[test]
fn a_round_trip_is_no_longer_than_the_first_answer() {
    let flights = fed(&[
        (0, 1200, true, true),
        (30, 1200, false, true),
        (31, 1200, false, true),
        (32, 50, true, false),
    ]);
    assert_eq!(flights.blocked_ns(40 * MS), 0);
}

#[test]
fn a_long_handshake_is_not_followed_to_its_end() {
    let mut flights = Flights::default();
    flights.datagram(0, 1200, true, true);
    for ms in 0..1000 {
        flights.datagram(ms * MS, 1200, false, true);
    }
    assert_eq!(flights.passed.len(), MOST_DATAGRAMS);
    // The first three are within the limit; before the fourth, which it may not send, it does not wait.
    assert_eq!(flights.blocked_ns(0), 0);
}
