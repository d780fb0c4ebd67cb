//! Feeds datagrams to connections: which datagrams start or join a connection, and the resulting state.

use std::net::SocketAddr;

use super::Sides;
use super::testing::{
    CLIENT, F, Feed, HELLO, MS, ODCID, P, RETRY, WHOLE, datagram, handshake, initial, key_log,
    one_rtt, retry,
};
use crate::quic::timeline::{Outcome, classify};

/// A sequence of (time, whether the client sends, packets).
type Steps<'a> = &'a [(i64, bool, &'a [P<'a>])];

#[test]
fn the_sides_are_counted_separately() {
    let before = Sides {
        client: 1,
        server: 2,
    };
    let mut sides = before;
    sides.add(true, 3);
    sides.add(false, 1);
    assert_eq!(sides.since(before, true), 3);
    assert_eq!(sides.since(before, false), 1);
}

#[test]
fn first_answers_have_their_names_and_times() {
    let ack = initial(0, &[F::Ack(0, 0)]);
    let hello = initial(1, &[F::ServerHello(WHOLE)]);
    let both = initial(0, &[F::Ack(0, 0), F::ServerHello(WHOLE)]);
    // Steps after the ClientHello at 0 ms; outcome; times of ACK and ServerHello.
    let stories: &[(Steps<'_>, Outcome, Option<i64>, Option<i64>)] = &[
        (&[], Outcome::Timeout, None, None),
        (&[(10, false, &[ack])], Outcome::AckOnly, Some(10), None),
        (
            &[(10, false, &[ack]), (14, false, &[hello])],
            Outcome::Iack,
            Some(10),
            Some(14),
        ),
        (
            &[(10, false, &[both])],
            Outcome::Coalesced,
            Some(10),
            Some(10),
        ),
        // In the same datagram, but in two packets.
        (
            &[(10, false, &[ack, hello])],
            Outcome::Coalesced,
            Some(10),
            Some(10),
        ),
        (
            &[
                (10, false, &[initial(0, &[F::ServerHello(WHOLE)])]),
                (12, false, &[initial(1, &[F::Ack(0, 0)])]),
            ],
            Outcome::ShFirst,
            Some(12),
            Some(10),
        ),
        // The ServerHello's first byte is sufficient.
        (
            &[(10, false, &[initial(0, &[F::Ack(0, 0), F::ServerHello(1)])])],
            Outcome::Coalesced,
            Some(10),
            Some(10),
        ),
        (
            &[(10, false, &[initial(0, &[F::Close(0x128)])])],
            Outcome::Closed,
            None,
            None,
        ),
        (
            &[(10, false, &[initial(0, &[F::Ping])])],
            Outcome::Malformed,
            None,
            None,
        ),
        (
            &[(10, false, &[initial(0, &[F::Ack(0, 0), F::Unknown])])],
            Outcome::Malformed,
            None,
            None,
        ),
        // A frame that no Initial may hold.
        (
            &[(10, false, &[initial(0, &[F::Ack(0, 0), F::Stream(0, 1)])])],
            Outcome::Malformed,
            None,
            None,
        ),
        // An ACK for a packet that was never sent does not acknowledge the ClientHello.
        (
            &[(10, false, &[initial(0, &[F::Ack(7, 7)])])],
            Outcome::Malformed,
            None,
            None,
        ),
        // A packet counts once.
        (
            &[(10, false, &[ack]), (11, false, &[ack])],
            Outcome::AckOnly,
            Some(10),
            None,
        ),
        // Beyond the windows: 3 s from the ClientHello, 100 ms from the ServerHello.
        (&[(3000, false, &[ack])], Outcome::AckOnly, Some(3000), None),
        (&[(3001, false, &[ack])], Outcome::Timeout, None, None),
        (
            &[
                (10, false, &[initial(0, &[F::ServerHello(WHOLE)])]),
                (111, false, &[initial(1, &[F::Ack(0, 0)])]),
            ],
            Outcome::ShFirst,
            None,
            Some(10),
        ),
    ];
    for (steps, outcome, ack_ms, hello_ms) in stories {
        let mut feed = Feed::new("");
        feed.packets(0, true, &[HELLO]);
        for (ms, from_client, packets) in *steps {
            let (_, by_client) = feed
                .packets(*ms, *from_client, packets)
                .expect("its connection");
            assert_eq!(by_client, *from_client);
        }
        let connection = feed.one();
        let answer = classify(&connection.timeline);
        let found = (
            answer.outcome,
            answer.ack.map(|ack| ack.at.ns / MS),
            answer.hello.map(|hello| hello.at.ns / MS),
        );
        assert_eq!(found, (*outcome, *ack_ms, *hello_ms), "{steps:?}");
        assert_eq!(answer.hello_ns, Some(0));
        assert!(!connection.is_cut);
    }
}

#[test]
fn a_retry_begins_the_answer_again() {
    let mut feed = Feed::new("");
    feed.packets(0, true, &[HELLO]);
    feed.bytes(5, false, &retry());
    let again = datagram(true, RETRY, b"token", &[initial(1, &[F::ClientHello])]);
    feed.bytes(7, true, &again);
    let answer = datagram(
        false,
        RETRY,
        &[],
        &[initial(0, &[F::Ack(1, 1), F::ServerHello(WHOLE)])],
    );
    feed.bytes(17, false, &answer);
    let connection = feed.one();
    let answer = classify(&connection.timeline);
    assert_eq!(connection.timeline.retry_ns, Some(5 * MS));
    assert_eq!(answer.outcome, Outcome::Coalesced);
    assert_eq!(
        (answer.hello_ns, answer.hello.unwrap().at.ns),
        (Some(7 * MS), 17 * MS)
    );
    assert_eq!(connection.odcid, ODCID.into());
    assert_eq!(
        (connection.packets.client, connection.packets.server),
        (2, 2)
    );
}

#[test]
fn a_damaged_retry_is_not_followed() {
    let mut feed = Feed::new("");
    feed.packets(0, true, &[HELLO]);
    let mut damaged = retry();
    *damaged.last_mut().unwrap() ^= 1;
    feed.bytes(5, false, &damaged);
    let connection = feed.one();
    assert_eq!(connection.timeline.retry_ns, None);
    assert_eq!(classify(&connection.timeline).outcome, Outcome::Malformed);
}

#[test]
fn a_retry_outside_the_capture_is_recognized_by_its_token() {
    let mut feed = Feed::new("");
    feed.packets(0, true, &[HELLO]);
    let again = datagram(true, RETRY, b"token", &[initial(1, &[F::ClientHello])]);
    feed.bytes(7, true, &again);
    let connection = feed.one();
    assert!(connection.timeline.retry_missed && connection.timeline.retry_ns.is_none());
    assert_eq!(connection.odcid, ODCID.into());
    assert_eq!(connection.datagrams.client, 2);
}

#[test]
fn datagrams_that_begin_nothing_are_counted() {
    let hello = datagram(true, ODCID, &[], &[HELLO]);
    let mut forged = hello.clone();
    *forged.last_mut().unwrap() ^= 1;
    let sealed = datagram(true, ODCID, &[], &[handshake(0, &[F::Ping])]);
    let cases: &[(&[u8], bool, Vec<u16>, u64)] = &[
        (&hello, true, vec![], 0),
        (&hello, true, vec![443], 0),
        // On a port outside the list, the packet is not even counted.
        (&hello, false, vec![4433], 0),
        (&forged, false, vec![], 1),
        (&sealed, false, vec![], 1),
        (&[0x40; 30], false, vec![], 1),
        (&[], false, vec![], 1),
    ];
    for (bytes, begins, ports, other_udp) in cases {
        let mut feed = Feed::with("", 8, ports.clone());
        assert_eq!(feed.bytes(0, true, bytes).is_some(), *begins, "{ports:?}");
        assert_eq!(feed.table.counters.other_udp, *other_udp, "{ports:?}");
        assert_eq!(feed.table.drain().is_some(), *begins);
    }
}

#[test]
fn keys_open_what_follows_the_handshake() {
    for (keys, has_keys) in [(key_log(), true), (String::new(), false)] {
        let mut feed = Feed::new(&keys);
        feed.packets(0, true, &[HELLO]);
        let answer = [
            initial(0, &[F::Ack(0, 0), F::ServerHello(WHOLE)]),
            handshake(0, &[F::Ping]),
        ];
        feed.packets(10, false, &answer);
        feed.packets(20, true, &[handshake(0, &[F::Ack(0, 0)])]);
        feed.packets(21, true, &[one_rtt(0, &[F::Stream(0, 10)])]);
        feed.packets(30, false, &[one_rtt(0, &[F::Ack(0, 0), F::Stream(0, 100)])]);
        // Sent again under another number: no new payload.
        feed.packets(40, false, &[one_rtt(1, &[F::Stream(0, 100)])]);
        let connection = feed.one();
        assert_eq!(connection.has_keys(), has_keys);
        assert_eq!(connection.timeline.first_handshake_ns, Some(10 * MS));
        assert_eq!(connection.undecrypted_packets, if has_keys { 0 } else { 5 });
        let volume = &connection.volume;
        if has_keys {
            assert_eq!(
                connection.timeline.protected().first_stream_ns,
                Some(30 * MS)
            );
            assert_eq!(
                (
                    volume.client.content().payload_bytes,
                    volume.server.content().payload_bytes
                ),
                (10, 100)
            );
            assert!(
                volume.server.content().ip_bytes_again > 0
                    && volume.client.content().ip_bytes_again == 0
            );
        } else {
            assert_eq!(connection.timeline.protected().first_stream_ns, None);
            assert_eq!(
                volume.client.content().payload_bytes + volume.server.content().payload_bytes,
                0
            );
        }
        assert_eq!(
            (connection.packets.client, connection.packets.server),
            (3, 4)
        );
        assert_eq!(
            (connection.datagrams.client, connection.datagrams.server),
            (3, 3)
        );
    }
}

#[test]
fn a_short_header_moves_its_connection_to_new_addresses() {
    let mut feed = Feed::new(&key_log());
    feed.packets(0, true, &[HELLO]);
    feed.packets(
        10,
        false,
        &[initial(0, &[F::Ack(0, 0), F::ServerHello(WHOLE)])],
    );
    feed.packets(20, true, &[one_rtt(0, &[F::Ping])]);
    feed.client = SocketAddr::from(([192, 0, 2, 99], 1));
    let (connection, by_client) = feed.packets(30, true, &[one_rtt(1, &[F::Ping])]).unwrap();
    assert!(by_client);
    assert_eq!(
        (connection.path_count(), connection.migrations()),
        (2, Some(1))
    );
    // A connection ID that the server issued is recognized. Other connection IDs are not.
    let to_cid = |cid: [u8; 8]| {
        let mut bytes = datagram(true, ODCID, &[], &[one_rtt(2, &[F::Ping])]);
        bytes[1..9].copy_from_slice(&cid);
        bytes
    };
    feed.client.set_port(2);
    assert!(feed.bytes(40, true, &to_cid([8; 8])).is_none());
    feed.client.set_port(1);
    feed.packets(50, false, &[one_rtt(0, &[F::NewCid([8; 8])])]);
    feed.client.set_port(2);
    assert!(feed.bytes(60, true, &to_cid([8; 8])).is_some());
}

#[test]
fn closed_connections_expire_sooner_and_late_packets_begin_none() {
    let mut feed = Feed::new("");
    feed.packets(0, true, &[HELLO]);
    let close = [initial(0, &[F::Close(7)])];
    let (connection, _) = feed.packets(10, false, &close).unwrap();
    let closing = connection.closing.as_ref().unwrap();
    assert!(connection.closed && !closing.by_client && !closing.by_application);
    assert_eq!(
        (closing.code, closing.ns, &*closing.reason),
        (7, 10 * MS, "reason")
    );
    assert!(feed.table.expired(10_010 * MS).is_none());
    assert!(feed.table.expired(10_011 * MS).is_some());
    assert!(feed.packets(10_020, true, &[HELLO]).is_none());
    assert!(feed.packets(10_030, false, &close).is_none());
    assert_eq!(
        (feed.table.counters.late, feed.table.counters.other_udp),
        (2, 0)
    );
    // Another connection ID on the same ports is another connection.
    assert!(
        feed.bytes(10_040, true, &datagram(true, [9; 8], &[], &[HELLO]))
            .is_some()
    );
}

#[test]
fn above_the_limit_the_one_idle_for_longest_is_evicted() {
    let mut feed = Feed::with("", 1, Vec::new());
    assert_eq!(feed.table.evicted(), 0);
    for (ms, port) in [(0, 1), (1, 2)] {
        feed.client.set_port(port);
        feed.packets(ms, true, &[HELLO]);
    }
    feed.client.set_port(1);
    feed.packets(2, true, &[initial(1, &[F::Ping])]);
    let evicted = feed.table.expired(2 * MS).unwrap();
    assert_eq!(evicted.client.port(), 2);
    assert!(feed.table.expired(2 * MS).is_none());
    assert_eq!(feed.table.evicted(), 1);
}

#[test]
fn a_cut_initial_begins_a_connection_where_quic_is_expected() {
    let hello = datagram(true, ODCID, &[], &[HELLO]);
    for (port, captured, begins) in [(443, 100, true), (443, 40, false), (444, 100, false)] {
        let mut feed = Feed::new("");
        feed.server.set_port(port);
        let found = feed.cut(0, true, &hello, captured).is_some();
        assert_eq!(found, begins, "{captured} bytes to port {port}");
        if begins {
            let connection = feed.one();
            assert!(connection.is_cut && !connection.closed);
            assert_eq!(connection.client_scid, CLIENT.into());
            assert_eq!(connection.undecrypted_packets, 1);
        }
    }
}

/// At 20,000 probes a second, 90,000 connections are live. Each has about 200 bytes in other blocks. The lookup tables
/// need as much again. The total is far below 300 MB. The allocator's block sizes are 1280, 1536 and 1792 bytes.
#[test]
fn a_connection_takes_no_more_than_one_and_a_half_kilobytes() {
    assert!(
        size_of::<super::Connection>() <= 1536,
        "{}",
        size_of::<super::Connection>()
    );
}
