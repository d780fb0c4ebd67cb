//! A datagram's connection, and the effect of ICMP errors.

use std::net::IpAddr;

use firstflight_wire::ConnectionId;

use super::*;
use crate::quic::connection::testing::{
    ANSWER, CLIENT, F, Feed, HELLO, MS, ODCID, P, SERVER, Sender, handshake, initial, key_log,
    one_rtt,
};

/// Two connections on the same ports. The second one started later.
fn two(keys: &str) -> (Feed, Sender<'static>, Sender<'static>) {
    let second = Sender {
        odcid: [9; 8],
        from: Some(&[8; 8]),
        ..Sender::CLIENT
    };
    let answer = Sender {
        odcid: [9; 8],
        to: Some(&[8; 8]),
        from: Some(&[7; 8]),
        ..Sender::SERVER
    };
    let mut feed = Feed::answered(keys);
    feed.sent(11, &second, &[HELLO]).unwrap();
    feed.sent(12, &answer, &[ANSWER]).unwrap();
    (feed, second, answer)
}

#[test]
fn connections_on_the_same_ports_are_distinguished_by_connection_id() {
    let (mut feed, second, answer) = two("");
    let to_second = Sender {
        to: Some(&[7; 8]),
        ..second
    };
    let packets = [handshake(0, &[F::Ping]), one_rtt(0, &[F::Ping])];
    // The original destination connection ID of the datagram's connection.
    let mut of = |sender: &Sender<'_>, packets: &[P<'_>]| {
        let (connection, by_client) = feed.sent(20, sender, packets).unwrap();
        assert_eq!(by_client, sender.from_client);
        connection.odcid
    };
    for packet in packets {
        assert_eq!(of(&Sender::CLIENT, &[packet]), ODCID.into());
        assert_eq!(of(&Sender::SERVER, &[packet]), ODCID.into());
        assert_eq!(of(&to_second, &[packet]), [9; 8].into());
        assert_eq!(of(&answer, &[packet]), [9; 8].into());
    }
    // A packet with an unknown connection ID belongs to the newest connection.
    let neither = Sender {
        to: Some(&[6; 8]),
        ..Sender::CLIENT
    };
    for packet in packets {
        assert_eq!(of(&neither, &[packet]), [9; 8].into());
    }
    // A short header that is too short to decrypt still identifies its connection.
    let short = [&[0x40][..], &CLIENT, &[0; 6]].concat();
    let (connection, _) = feed.bytes(21, false, &short).unwrap();
    assert_eq!(connection.odcid, ODCID.into());
    let (connection, _) = feed.bytes(21, true, &[]).unwrap();
    assert_eq!(connection.odcid, [9; 8].into());
    let (connection, _) = feed.bytes(21, false, &[0xff; 9]).unwrap();
    assert_eq!(connection.odcid, [9; 8].into());
}

#[test]
fn initials_that_decrypt_are_noted_on_request() {
    for (is_requested, expected) in [(false, 0), (true, 1)] {
        let mut feed = Feed::new("");
        if is_requested {
            feed.table.note_paddings();
        }
        feed.sent(0, &Sender::CLIENT, &[HELLO]).unwrap();
        assert_eq!(feed.table.paddings().0.len(), expected);
    }
}

#[test]
fn ports_that_were_not_asked_for_are_passed_over() {
    for (client, server, ports, is_taken) in [
        (50_000, 443, &[][..], true),
        (50_000, 443, &[443], true),
        (50_000, 443, &[80, 50_000], true),
        (50_000, 443, &[80], false),
    ] {
        let mut feed = Feed::with("", 8, ports.to_vec());
        feed.client.set_port(client);
        feed.server.set_port(server);
        assert_eq!(feed.packets(0, true, &[HELLO]).is_some(), is_taken);
        assert_eq!(feed.packets(1, false, &[ANSWER]).is_some(), is_taken);
        assert_eq!(feed.table.counters.other_udp, 0);
    }
}

fn icmp(feed: &Feed) -> IcmpError {
    IcmpError {
        kind: 3,
        code: 3,
        port_unreachable: true,
        quoted_src: feed.client,
        quoted_dst: feed.server,
        quoted_scid: Some(CLIENT.into()),
        source: IpAddr::from([203, 0, 113, 9]),
    }
}

/// A change of an ICMP error, given another address, and whether its connection is still found.
type Change = (fn(&mut IcmpError, SocketAddr), bool);

#[test]
fn an_icmp_error_belongs_to_the_connection_that_it_quotes() {
    let other: SocketAddr = ([192, 0, 2, 77], 7).into();
    let changes: &[Change] = &[
        (|_, _| {}, true),
        (|e, _| e.quoted_scid = None, true),
        (|e, _| e.quoted_scid = Some(SERVER.into()), false),
        (|e, other| e.quoted_src = other, false),
        (|e, other| e.quoted_dst = other, false),
        // The server's datagram.
        (
            |e, _| std::mem::swap(&mut e.quoted_src, &mut e.quoted_dst),
            false,
        ),
    ];
    for (i, (change, is_found)) in changes.iter().enumerate() {
        let mut feed = Feed::begun("");
        let mut error = icmp(&feed);
        change(&mut error, other);
        let arrival = feed.arrival(7, true, 0);
        let found = feed.table.icmp(&arrival, &error).is_some();
        assert_eq!(found, *is_found, "{i}");
        assert_eq!(feed.one().timeline.icmp, is_found.then_some((3, 3)), "{i}");
    }
}

#[test]
fn an_icmp_error_goes_to_the_newest_connection_that_it_fits() {
    for (scid, odcid) in [
        (None, [9; 8]),
        (Some(CLIENT), ODCID),
        (Some([8; 8]), [9; 8]),
    ] {
        let (mut feed, ..) = two("");
        let error = IcmpError {
            quoted_scid: scid.map(ConnectionId::from),
            ..icmp(&feed)
        };
        let arrival = feed.arrival(7, true, 0);
        let connection = feed.table.icmp(&arrival, &error).unwrap();
        assert_eq!(connection.odcid, odcid.into(), "{scid:?}");
    }
}

#[test]
fn an_icmp_error_is_final_if_the_port_is_unreachable_and_the_sender_is_proven() {
    // Port unreachable, quotes a connection ID, sent by the server itself.
    for (port_unreachable, has_scid, from_server, is_final) in [
        (true, true, false, true),
        (true, false, true, true),
        (true, true, true, true),
        (true, false, false, false),
        (false, true, true, false),
    ] {
        let mut feed = Feed::begun("");
        let mut error = icmp(&feed);
        error.port_unreachable = port_unreachable;
        if !has_scid {
            error.quoted_scid = None;
        }
        if from_server {
            error.source = feed.server.ip();
        }
        let arrival = feed.arrival(7, true, 0);
        let connection = feed.table.icmp(&arrival, &error).unwrap();
        assert_eq!(connection.timeline.refused, is_final);
    }
}

#[test]
fn what_was_written_out_is_found_no_more() {
    let mut feed = Feed::answered(&key_log());
    feed.packets(20, true, &[one_rtt(0, &[F::Ping])]).unwrap();
    let usual = feed.client;
    feed.client.set_port(1);
    feed.packets(30, true, &[one_rtt(1, &[F::Ping])]).unwrap();
    assert_eq!(feed.table.expired(60_031 * MS).unwrap().datagrams.client, 3);
    assert!(feed.table.expired(i64::MAX).is_none());
    let short = [&[0x40][..], &SERVER].concat();
    assert!(feed.table.by_cid.of_short(&short).is_none());
    for client in [usual, feed.client] {
        let tuple = feed.table.by_tuple.tuple(&client, &feed.server);
        assert!(feed.table.by_tuple.get(tuple).is_empty());
    }
    feed.client.set_port(2);
    assert!(feed.packets(40, true, &[one_rtt(2, &[F::Ping])]).is_none());
    assert_eq!(
        (feed.table.counters.late, feed.table.counters.other_udp),
        (0, 1)
    );
}

#[test]
fn what_names_no_connection_belongs_to_the_one_that_lives() {
    // An earlier connection between the same ends was removed.
    let mut feed = Feed::answered("");
    feed.table.expired(60_031 * MS).unwrap();
    let second = Sender {
        odcid: [9; 8],
        from: Some(&[8; 8]),
        ..Sender::CLIENT
    };
    feed.sent(60_100, &second, &[HELLO]).unwrap();
    let no_packet = [0_u8; 30];
    let found = feed.bytes(60_120, false, &no_packet);
    assert_eq!(
        found.map(|(c, by_client)| (c.odcid, by_client)),
        Some(([9; 8].into(), false))
    );
    assert_eq!(feed.table.counters.late, 0);
    // A datagram of the removed connection is late.
    assert!(feed.packets(60_130, true, &[HELLO]).is_none());
    assert!(
        feed.packets(60_140, false, &[handshake(0, &[F::Ping])])
            .is_none()
    );
    assert_eq!(feed.table.counters.late, 2);
}

#[test]
fn a_connection_that_is_not_closed_lives_until_it_is_idle() {
    let mut feed = Feed::begun("");
    feed.packets(1, false, &[ANSWER]).unwrap();
    feed.packets(2, true, &[handshake(0, &[F::Ping])]).unwrap();
    assert!(feed.table.expired(60_002 * MS).is_none());
    assert!(feed.table.expired(60_002 * MS + 1).is_some());
}

#[test]
fn of_many_connections_those_go_whose_first_answer_is_decided() {
    let mut feed = Feed::with("", 8, Vec::new());
    let decided_ns = 3_100 * MS;
    feed.table.expiry = Expiry::new(feed.table.limits.bounds).sparing(1, decided_ns);
    for port in [1, 2] {
        feed.client.set_port(port);
        feed.packets(10, true, &[HELLO]).unwrap();
    }
    feed.packets(20, false, &[ANSWER]).unwrap();
    for (now_ns, port) in [
        (3_110 * MS, None),
        (3_110 * MS + 1, Some(1)),
        (9_000 * MS, None),
    ] {
        let expired = feed.table.expired(now_ns);
        assert_eq!(expired.map(|c| c.client.port()), port, "{now_ns}");
    }
    assert_eq!(feed.table.evicted(), 1);
}

#[test]
fn late_packets_keep_a_closed_connection() {
    let mut feed = Feed::begun("");
    feed.packets(10, false, &[initial(0, &[F::Close(7)])])
        .unwrap();
    feed.packets(5_000, true, &[initial(1, &[F::Ping])])
        .unwrap();
    assert!(feed.table.expired(15_000 * MS).is_none());
    assert!(feed.table.expired(15_000 * MS + 1).is_some());
}

#[test]
fn the_memory_of_a_connection_is_used_again() {
    let mut feed = Feed::begun("");
    let connection = feed.one();
    let place: *const Connection = &*connection;
    feed.table.give_back(connection);
    let next = Sender {
        odcid: [9; 8],
        ..Sender::CLIENT
    };
    let (connection, _) = feed.sent(5, &next, &[HELLO]).unwrap();
    assert!(std::ptr::eq(connection, place));
    assert_eq!(connection.odcid, [9; 8].into());
    assert!(feed.table.spare.is_none());
}

#[test]
fn more_packets_are_remembered_while_there_are_few_connections() {
    let mut feed = Feed::with("", 9999, Vec::new());
    feed.packets(0, true, &[HELLO]).unwrap();
    let (connection, _) = feed.packets(1, false, &[ANSWER]).unwrap();
    assert_eq!(connection.recovery.remembered, 4096);
    for port in 1..=127 {
        feed.client.set_port(port);
        feed.packets(2, true, &[HELLO]).unwrap();
    }
    let (connection, _) = feed.packets(3, false, &[ANSWER]).unwrap();
    assert_eq!(connection.recovery.remembered, 2048);
}

#[test]
fn a_key_log_inside_the_capture_opens_what_follows() {
    let mut feed = Feed::new("");
    feed.table.key_log(key_log().as_bytes());
    feed.packets(0, true, &[HELLO]).unwrap();
    feed.packets(1, false, &[ANSWER]).unwrap();
    feed.packets(2, true, &[one_rtt(0, &[F::Ping])]).unwrap();
    let connection = feed.one();
    assert!(connection.has_keys() && connection.undecrypted_packets == 0);
}

#[test]
fn reading_ahead_changes_nothing() {
    let feed = Feed::answered("");
    let ends = [(feed.client, feed.server), (feed.server, feed.client)];
    feed.table.prefetch(ends.iter().map(|(a, b)| (a, b)));
    let unknown = [(feed.client, feed.client)];
    feed.table.prefetch(unknown.iter().map(|(a, b)| (a, b)));
}
