//! Datagrams that start a connection, and datagrams that continue one on another path.

use std::net::SocketAddr;

use firstflight_wire::Version;

use crate::quic::connection::testing::{
    ANSWER, CLIENT, F, Feed, HELLO, MS, ODCID, RETRY, Sender, client_hello, datagram, handshake,
    initial, key_log, one_rtt, retry, zero_rtt,
};

/// A datagram of an unknown version from `scid` to `dcid`.
fn unknown_version(dcid: [u8; 8], scid: [u8; 8], length: usize) -> Vec<u8> {
    let mut bytes = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    bytes.extend(dcid);
    bytes.push(8);
    bytes.extend(scid);
    bytes.resize(length, 0xee);
    bytes
}

fn count(feed: &mut Feed) -> usize {
    std::iter::from_fn(|| feed.table.drain()).count()
}

#[test]
fn early_data_waits_for_an_initial_to_the_same_connection_id() {
    // Length of the connection ID, and datagrams that belong to no connection before and after the capture's end.
    for (dcid, before, after) in [(8, 0, 1), (20, 0, 1), (7, 1, 1)] {
        let mut feed = Feed::new("");
        let to = vec![1; dcid];
        let sender = Sender {
            to: Some(&to),
            ..Sender::CLIENT
        };
        assert!(feed.sent(0, &sender, &[zero_rtt(0, &[F::Ping])]).is_none());
        assert_eq!(feed.table.counters.other_udp, before, "{dcid}");
        feed.table.give_up_held();
        assert_eq!(feed.table.counters.other_udp, after, "{dcid}");
    }
}

#[test]
fn a_cut_initial_begins_if_enough_of_it_is_there() {
    // Length of the destination connection ID, bytes sent, bytes captured, server port, ports of interest, whether it
    // starts.
    for (dcid, length, captured, port, ports, begins) in [
        (8, 1200, 47, 443, &[][..], true),
        (8, 1200, 46, 443, &[], false),
        (8, 1200, 300, 443, &[], true),
        (8, 1199, 100, 443, &[], false),
        (20, 1200, 100, 443, &[], true),
        (7, 1200, 100, 443, &[], false),
        (8, 1200, 100, 4433, &[], false),
        (8, 1200, 100, 4433, &[4433], true),
        (8, 1200, 100, 443, &[443], true),
    ] {
        let mut feed = Feed::with("", 8, ports.to_vec());
        feed.server.set_port(port);
        let to = vec![1; dcid];
        let sender = Sender {
            to: Some(&to),
            ..Sender::CLIENT
        };
        let bytes = sender.datagram(&[HELLO]);
        let found = feed.cut(0, true, &bytes[..length], captured).is_some();
        assert_eq!(found, begins, "{dcid} {length} {captured} {port} {ports:?}");
        assert_eq!(feed.table.counters.other_udp, u64::from(!begins));
        assert_eq!(count(&mut feed), usize::from(begins));
    }
}

#[test]
fn an_initial_that_is_whole_needs_no_port() {
    // The capture cut the packet after the Initial.
    let mut feed = Feed::new("");
    feed.server.set_port(9);
    let packets = [HELLO, handshake(0, &[F::Stream(0, 99)])];
    let bytes = datagram(true, ODCID, &[], &packets);
    assert!(feed.cut(0, true, &bytes, 1230).is_some());
    assert!(feed.one().is_cut);
    // The client sent less than the header declares.
    let mut feed = Feed::new("");
    let bytes = datagram(true, ODCID, &[], &[HELLO]);
    assert!(feed.bytes(0, true, &bytes[..1199]).is_none());
    let long = [&bytes[..], &[0; 100]].concat();
    let mut longer = long.clone();
    // The length field: 1300 bytes after it.
    longer[24..26].copy_from_slice(&[0x45, 0x14]);
    assert!(feed.bytes(0, true, &longer).is_none());
    assert!(feed.bytes(0, true, &long).is_some());
}

#[test]
fn a_cut_handshake_packet_begins_nothing() {
    let mut feed = Feed::new("");
    let mut bytes = datagram(true, ODCID, &[], &[handshake(0, &[F::Ping])]);
    bytes.resize(1200, 1);
    assert!(feed.cut(0, true, &bytes, 25).is_none());
    assert!(feed.cut(0, true, &bytes, 100).is_none());
}

#[test]
fn a_cut_initial_of_the_same_client_goes_on() {
    let mut feed = Feed::new("");
    let send = |feed: &mut Feed, from: [u8; 8], to: [u8; 8]| {
        let sender = Sender {
            to: Some(&to),
            from: Some(&from),
            ..Sender::CLIENT
        };
        let bytes = sender.datagram(&[HELLO]);
        let (connection, by_client) = feed.cut(0, true, &bytes, 100).unwrap();
        assert!(by_client);
        (connection.client_scid, connection.datagrams.client)
    };
    assert_eq!(send(&mut feed, CLIENT, ODCID), (CLIENT.into(), 1));
    // After a Retry, perhaps.
    assert_eq!(send(&mut feed, CLIENT, RETRY), (CLIENT.into(), 2));
    // Another client on the same ports.
    assert_eq!(send(&mut feed, [7; 8], [8; 8]), ([7; 8].into(), 1));
    assert_eq!(count(&mut feed), 2);
}

#[test]
fn an_unknown_version_begins_where_quic_is_expected() {
    for (port, length, begins) in [(443, 1200, true), (443, 1199, false), (444, 1200, false)] {
        let mut feed = Feed::new("");
        feed.server.set_port(port);
        let bytes = unknown_version(ODCID, CLIENT, length);
        assert_eq!(
            feed.bytes(0, true, &bytes).is_some(),
            begins,
            "{port} {length}"
        );
        if !begins {
            continue;
        }
        // With any connection IDs, it belongs to the live connection.
        let bytes = unknown_version([7; 8], [8; 8], length);
        feed.bytes(1, true, &bytes).unwrap();
        let connection = feed.one();
        assert_eq!(connection.version, Version(0x1a2a_3a4a));
        assert_eq!(
            (connection.odcid, connection.client_scid),
            (ODCID.into(), CLIENT.into())
        );
        assert_eq!(
            (connection.datagrams.client, connection.undecrypted_packets),
            (2, 2)
        );
    }
}

#[test]
fn a_whole_initial_begins_at_any_port() {
    let mut feed = Feed::new("");
    feed.server.set_port(9);
    feed.packets(1, true, &[HELLO]).unwrap();
    assert_eq!(count(&mut feed), 1);
}

#[test]
fn a_connection_that_begins_with_a_close_expires_sooner() {
    let mut feed = Feed::new("");
    let closed = initial(0, &[F::ClientHello, F::Close(1)]);
    feed.packets(0, true, &[closed]).unwrap();
    assert!(feed.table.expired(10_000 * MS).is_none());
    assert!(feed.table.expired(10_000 * MS + 1).is_some());
    let mut feed = Feed::begun("");
    assert!(feed.table.expired(60_000 * MS).is_none());
    assert!(feed.table.expired(60_000 * MS + 1).is_some());
}

#[test]
fn what_begins_nothing_leaves_nothing_in_the_log() {
    let mut feed = Feed::new("");
    feed.log_packets();
    let mut forged = datagram(true, ODCID, &[], &[HELLO]);
    *forged.last_mut().unwrap() ^= 1;
    assert!(feed.bytes(0, true, &forged).is_none());
    assert!(feed.logged().is_empty() && feed.table.spare.is_some());
    feed.packets(1, true, &[HELLO]).unwrap();
    assert_eq!(feed.logged().len(), 1);
    // The Initial seems to start a connection, but continues one. It is logged once.
    let again = datagram(true, RETRY, b"token", &[initial(1, &[F::ClientHello])]);
    feed.bytes(7, true, &again).unwrap();
    assert_eq!(feed.logged().len(), 1);
    assert_eq!(feed.one().datagrams.client, 2);
}

/// A connection with keys and a 1-RTT packet from the client.
fn connected() -> Feed {
    let mut feed = Feed::answered(&key_log());
    feed.packets(20, true, &[one_rtt(0, &[F::Ping])]).unwrap();
    feed
}

#[test]
fn only_short_headers_move_a_connection() {
    let mut feed = connected();
    feed.client = SocketAddr::from(([192, 0, 2, 99], 1));
    let before = feed.table.counters.other_udp;
    assert!(
        feed.packets(30, true, &[handshake(0, &[F::Ping])])
            .is_none()
    );
    assert_eq!(feed.table.counters.other_udp, before + 1);
    let (connection, by_client) = feed.packets(31, true, &[one_rtt(1, &[F::Ping])]).unwrap();
    assert!(by_client);
    assert_eq!(connection.path_count(), 2);
    // From here on, both directions and long headers are recognized on this path.
    let (_, by_client) = feed.packets(32, false, &[one_rtt(0, &[F::Ping])]).unwrap();
    assert!(!by_client);
    let (connection, by_client) = feed.packets(33, true, &[handshake(0, &[F::Ping])]).unwrap();
    assert!(by_client);
    assert_eq!(
        (connection.path_count(), connection.migrations()),
        (2, Some(1))
    );
    assert_eq!(
        (connection.datagrams.client, connection.datagrams.server),
        (4, 2)
    );
}

#[test]
fn paths_beyond_64_others_are_not_kept_and_their_datagrams_are_of_the_client() {
    let mut feed = connected();
    for port in 1..=66 {
        feed.client.set_port(port);
        let packet = [one_rtt(u64::from(port), &[F::Stream(0, 1)])];
        let (connection, by_client) = feed.packets(30, true, &packet).unwrap();
        assert!(by_client, "from port {port}");
        assert_eq!(connection.path_count(), 1 + usize::from(port.min(64)));
        assert_eq!(connection.migrations(), Some(u32::from(port)));
    }
    let connection = feed.one();
    assert_eq!(
        (connection.datagrams.client, connection.datagrams.server),
        (68, 1)
    );
}

#[test]
fn a_connection_id_that_was_forgotten_adds_no_path() {
    let mut feed = connected();
    // More connection IDs than are kept per side. Those in the middle are dropped, but the table still has them.
    for i in 0..70 {
        let frames = [F::NewCid([100 + i; 8])];
        feed.packets(30, false, &[one_rtt(u64::from(i), &frames)])
            .unwrap();
    }
    let sender = Sender {
        to: Some(&[100 + 31; 8]),
        ..Sender::CLIENT
    };
    for number in 1..3 {
        let (connection, by_client) = feed
            .sent(40, &sender, &[one_rtt(number, &[F::Ping])])
            .unwrap();
        assert!(!connection.owns(true, &[100 + 31; 8]));
        assert!(by_client);
        assert_eq!(
            (connection.path_count(), connection.migrations()),
            (1, Some(0))
        );
    }
    assert_eq!(feed.one().datagrams.client, 4);
}

#[test]
fn a_retry_outside_the_capture_needs_all_that_shows_it() {
    // Version, token, connection IDs of the later Initial, its number, and whether it continues the connection.
    let v1 = Sender::CLIENT;
    let later = Sender {
        odcid: RETRY,
        token: b"token",
        ..v1
    };
    for (sender, number, goes_on) in [
        (later, 1, true),
        (
            Sender {
                token: b"",
                ..later
            },
            1,
            false,
        ),
        (
            Sender {
                version: Version::V2,
                ..later
            },
            1,
            false,
        ),
        (
            Sender {
                from: Some(&[7; 8]),
                ..later
            },
            1,
            false,
        ),
        (later, 0, false),
    ] {
        let mut feed = Feed::begun("");
        let (connection, _) = feed
            .sent(5, &sender, &[initial(number, &[F::ClientHello])])
            .unwrap();
        assert_eq!(
            connection.timeline.retry_missed, goes_on,
            "{sender:?} {number}"
        );
        assert_eq!(connection.datagrams.client, if goes_on { 2 } else { 1 });
        assert_eq!(count(&mut feed), if goes_on { 1 } else { 2 });
    }
}

#[test]
fn after_an_answer_no_retry_was_missed() {
    let later = datagram(true, [9; 8], b"token", &[initial(1, &[F::ClientHello])]);
    let mut feed = Feed::answered("");
    feed.bytes(20, true, &later).unwrap();
    assert_eq!(count(&mut feed), 2);
    // Nor after a Retry in the capture.
    let mut feed = Feed::begun("");
    feed.bytes(5, false, &retry());
    feed.bytes(20, true, &later).unwrap();
    assert_eq!(count(&mut feed), 2);
}

#[test]
fn clients_without_connection_id_are_distinguished_by_their_hello() {
    for (random, goes_on) in [(5, true), (6, false)] {
        let first = Sender {
            from: Some(&[]),
            ..Sender::CLIENT
        };
        let mut feed = Feed::new("");
        feed.sent(0, &first, &[HELLO]).unwrap();
        let later = Sender {
            odcid: RETRY,
            token: b"token",
            ..first
        };
        let hello = client_hello(random, "www.example.net");
        feed.sent(5, &later, &[initial(1, &[F::Crypto(0, hello)])])
            .unwrap();
        assert_eq!(count(&mut feed), if goes_on { 1 } else { 2 }, "{random}");
    }
}

#[test]
fn late_initials_after_a_retry_begin_nothing() {
    // Whether the first late Initial arrived in time.
    for is_followed in [true, false] {
        let mut feed = Feed::begun("");
        feed.bytes(5, false, &retry()).unwrap();
        let again = Sender::CLIENT_AFTER_RETRY;
        if is_followed {
            feed.sent(10, &again, &[initial(1, &[F::ClientHello])])
                .unwrap();
        }
        feed.one();
        let late = [initial(2, &[F::ClientHello])];
        assert!(feed.sent(20, &again, &late).is_none(), "{is_followed}");
        assert_eq!(feed.table.counters.late, 1);
    }
}

#[test]
fn late_packets_of_a_connection_begin_nothing_on_its_ports() {
    let mut feed = Feed::begun("");
    feed.packets(10, false, &[ANSWER]).unwrap();
    feed.one();
    let forged = {
        let mut bytes = datagram(true, [9; 8], &[], &[HELLO]);
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    assert!(feed.packets(20, true, &[HELLO]).is_none());
    assert!(feed.packets(20, false, &[ANSWER]).is_none());
    assert!(feed.bytes(20, true, &forged).is_none());
    assert!(feed.bytes(20, true, &[0x40; 30]).is_none());
    assert_eq!(
        (feed.table.counters.late, feed.table.counters.other_udp),
        (4, 0)
    );
    feed.client.set_port(1);
    assert!(feed.bytes(20, true, &[0x40; 30]).is_none());
    assert_eq!(
        (feed.table.counters.late, feed.table.counters.other_udp),
        (4, 1)
    );
    assert!(feed.packets(20, true, &[HELLO]).is_some());
}
