//! Packets in a datagram, whole, damaged, cut, or not for this connection.

mod cut;
mod log;

use super::super::testing::{
    ANSWER, CLIENT, F, Feed, HELLO, MS, ODCID, P, RETRY, SERVER, Sender, WHOLE, datagram,
    handshake, initial, key_log, one_rtt, retry, retry_with, version_negotiation, zero_rtt,
};
use super::*;
use crate::quic::timeline::{Outcome, classify};

/// The outcome and the reason.
fn answer(c: &Connection) -> (Outcome, Option<String>) {
    let answer = classify(&c.timeline);
    (answer.outcome, answer.detail.map(str::to_owned))
}

fn malformed(what: &str) -> (Outcome, Option<String>) {
    (Outcome::Malformed, Some(what.to_owned()))
}

/// A server's datagram with a damaged last byte.
fn damaged(packets: &[P<'_>]) -> Vec<u8> {
    let mut bytes = datagram(false, ODCID, &[], packets);
    *bytes.last_mut().unwrap() ^= 1;
    bytes
}

#[test]
fn what_cannot_be_read_of_the_server_is_a_fault_and_counted() {
    let mut from_other = Sender::SERVER;
    from_other.to = Some(&[9; 8]);
    let of_version_7 = {
        let mut bytes = datagram(false, ODCID, &[], &[ANSWER]);
        bytes[4] = 7;
        bytes
    };
    for (bytes, what, packets, undecrypted) in [
        (vec![], "empty datagram", 0, 0),
        (vec![0; 40], "header does not parse", 0, 1),
        (vec![0xff; 40], "header does not parse", 0, 1),
        (
            damaged(&[ANSWER]),
            "Initial that does not authenticate",
            1,
            1,
        ),
        (
            from_other.datagram(&[ANSWER]),
            "Initial to another connection ID",
            1,
            1,
        ),
        (
            from_other.datagram(&[handshake(0, &[F::Ping])]),
            "packet that no key opens",
            1,
            1,
        ),
        (
            datagram(false, ODCID, &[], &[one_rtt(0, &[F::Ping])]),
            "packet that no key opens",
            1,
            1,
        ),
        (of_version_7, "packet of another version or kind", 1, 1),
        (
            damaged(&[handshake(0, &[F::Ping])]),
            "Handshake packet before any ServerHello",
            1,
            1,
        ),
        (
            datagram(false, ODCID, &[], &[initial(3, &[F::Unknown])]),
            "Initial 3 opened: malformed frame type",
            1,
            0,
        ),
        (
            datagram(false, ODCID, &[], &[initial(3, &[F::Stream(0, 3)])]),
            "Initial 3 opened: malformed frame that no Initial may hold",
            1,
            0,
        ),
        (
            datagram(false, ODCID, &[], &[initial(200, &[])]),
            "Initial 200 opened: malformed packet without frames",
            1,
            0,
        ),
    ] {
        let mut feed = Feed::begun("");
        feed.bytes(10, false, &bytes).expect("its connection");
        let connection = feed.one();
        assert_eq!(answer(&connection), malformed(what));
        assert_eq!(connection.packets.server, packets, "{what}");
        assert_eq!(connection.undecrypted_packets, undecrypted, "{what}");
        assert_eq!(
            (connection.datagrams.client, connection.datagrams.server),
            (1, 1)
        );
        assert!(!connection.is_cut);
    }
}

#[test]
fn what_cannot_be_read_of_the_client_is_counted_and_no_fault() {
    let mut bytes = datagram(true, ODCID, &[], &[initial(1, &[F::Ping])]);
    *bytes.last_mut().unwrap() ^= 1;
    for bytes in [
        bytes,
        vec![0; 40],
        retry(),
        version_negotiation(ODCID, CLIENT, &[Version::V2]),
        datagram(true, ODCID, &[], &[handshake(0, &[F::Ping])]),
        datagram(true, ODCID, &[], &[one_rtt(0, &[F::Ping])]),
    ] {
        let mut feed = Feed::begun("");
        feed.bytes(10, true, &bytes).expect("its connection");
        feed.packets(20, false, &[ANSWER]).unwrap();
        let connection = feed.one();
        assert_eq!(answer(&connection), (Outcome::Coalesced, None));
        assert_eq!(connection.undecrypted_packets, 1);
        assert_eq!(
            (connection.datagrams.client, connection.datagrams.server),
            (2, 1)
        );
    }
    // Broken frames of the client are no fault of the server, either.
    let mut feed = Feed::begun("");
    feed.packets(10, true, &[initial(1, &[F::Unknown])])
        .unwrap();
    assert_eq!(answer(&feed.one()), (Outcome::Timeout, None));
}

#[test]
fn a_datagram_may_end_in_zeros() {
    let sealed = datagram(false, ODCID, &[], &[ANSWER]);
    for (rest, packets, undecrypted) in [
        (&[0; 100][..], 1, 0),
        (&[0], 1, 0),
        (&[0, 0, 1], 1, 1),
        (&[1], 1, 1),
    ] {
        let mut feed = Feed::begun("");
        let bytes = [&sealed[..], rest].concat();
        feed.bytes(10, false, &bytes).unwrap();
        let connection = feed.one();
        assert_eq!(connection.packets.server, packets, "{rest:?}");
        assert_eq!(connection.undecrypted_packets, undecrypted, "{rest:?}");
        assert_eq!(answer(&connection).0, Outcome::Coalesced);
    }
    for (bytes, expected) in [
        (&[0, 0][..], true),
        (&[0], true),
        (&[0, 1], false),
        (&[1, 0], false),
        (&[], false),
    ] {
        assert_eq!(is_zeros(bytes), expected, "{bytes:?}");
    }
}

#[test]
fn packets_that_are_not_the_servers_are_passed_over() {
    let with_token = Sender {
        token: b"token",
        ..Sender::SERVER
    };
    let from_other = Sender {
        from: Some(&[9; 8]),
        ..Sender::SERVER
    };
    for (sender, packets, first) in [
        (with_token, ANSWER, false),
        (from_other, ANSWER, true),
        (from_other, handshake(0, &[F::Ping]), true),
    ] {
        let mut feed = Feed::begun("");
        feed.log_packets();
        if first {
            feed.packets(10, false, &[initial(0, &[F::Ack(0, 0)])])
                .unwrap();
        }
        feed.sent(20, &sender, &[packets]).unwrap();
        let connection = feed.one();
        let expected = if first {
            Outcome::AckOnly
        } else {
            Outcome::Timeout
        };
        assert_eq!(answer(&connection).0, expected);
        assert_eq!(connection.timeline.server_hello_ns, None);
        assert_eq!(connection.timeline.first_handshake_ns, None);
        let is_handshake = packets.kind == PacketType::Handshake;
        assert_eq!(connection.undecrypted_packets, u32::from(is_handshake));
        assert_eq!(connection.packets.server, 1 + u32::from(first));
    }
}

#[test]
fn a_retry_counts_if_it_echoes_the_client_and_changes_something() {
    let wrong = "Retry with wrong integrity tag or connection ID";
    let mut forged = retry();
    forged[20] ^= 1;
    for (bytes, is_valid, fault) in [
        (retry(), true, None),
        (forged, false, Some(wrong)),
        (
            retry_with(Version::V1, [9; 8], RETRY, b"token"),
            false,
            Some(wrong),
        ),
        (
            retry_with(Version::V2, CLIENT, RETRY, b"token"),
            false,
            Some(wrong),
        ),
        // The client drops and ignores it.
        (retry_with(Version::V1, CLIENT, RETRY, b""), false, None),
        (
            retry_with(Version::V1, CLIENT, ODCID, b"token"),
            false,
            None,
        ),
        (
            retry_with(Version::V1, [9; 8], RETRY, b""),
            false,
            Some(wrong),
        ),
    ] {
        let mut feed = Feed::begun("");
        let (connection, _) = feed.bytes(5, false, &bytes).unwrap();
        assert_eq!(connection.timeline.retry_ns, is_valid.then_some(5 * MS));
        assert_eq!(connection.retry_scid, is_valid.then_some(RETRY.into()));
        assert_eq!(connection.owns(true, &RETRY), is_valid);
        assert_eq!(connection.timeline.attempt.undecrypted, fault);
        let outcome = match (is_valid, fault) {
            (true, _) => Outcome::Retry,
            (false, Some(_)) => Outcome::Malformed,
            (false, None) => Outcome::Timeout,
        };
        assert_eq!(answer(connection).0, outcome);
    }
    // A second Retry is not followed.
    let mut feed = Feed::begun("");
    feed.bytes(5, false, &retry());
    let second = retry_with(Version::V1, CLIENT, [8; 8], b"token");
    let (connection, _) = feed.bytes(6, false, &second).unwrap();
    assert_eq!(connection.retry_scid, Some(RETRY.into()));
    assert!(!connection.owns(true, &[8; 8]));
}

#[test]
fn a_version_negotiation_counts_if_it_echoes_both_connection_ids() {
    let v2 = [Version::V2];
    for (bytes, list) in [
        (version_negotiation(CLIENT, ODCID, &v2), Some("0x6b3343cf")),
        (version_negotiation(CLIENT, SERVER, &v2), None),
        (version_negotiation(SERVER, ODCID, &v2), None),
        (version_negotiation(CLIENT, ODCID, &[Version::V1]), None),
        (
            {
                let mut bytes = version_negotiation(CLIENT, ODCID, &v2);
                bytes.pop();
                bytes
            },
            None,
        ),
    ] {
        let mut feed = Feed::begun("");
        feed.bytes(5, false, &bytes).unwrap();
        let connection = feed.one();
        assert_eq!(connection.timeline.version_list.as_deref(), list);
        let outcome = match list {
            Some(_) => Outcome::VersionNegotiation,
            None => Outcome::Timeout,
        };
        assert_eq!(answer(&connection), (outcome, None));
    }
}

#[test]
fn times_counts_and_lengths_of_datagrams_are_kept() {
    let mut feed = Feed::begun(&key_log());
    feed.packets(10, false, &[ANSWER]).unwrap();
    // Captured out of order.
    feed.packets(30, true, &[one_rtt(0, &[F::Stream(0, 10)])])
        .unwrap();
    feed.is_guessed = true;
    feed.packets(20, false, &[one_rtt(0, &[F::Stream(0, 20)])])
        .unwrap();
    // The same bytes under another number, followed by new bytes in the same datagram.
    feed.packets(25, false, &[one_rtt(1, &[F::Stream(0, 20)])])
        .unwrap();
    let connection = feed.one();
    assert_eq!(connection.last_ns, 30 * MS);
    let volume = &connection.volume;
    let length = |from_client, packets: &[P<'_>]| {
        datagram(from_client, ODCID, &[], packets).len() as u64 + 28
    };
    let answer = length(false, &[one_rtt(0, &[F::Stream(0, 20)])]);
    assert_eq!(
        volume.client.ip_bytes,
        1228 + length(true, &[one_rtt(0, &[F::Stream(0, 10)])])
    );
    assert_eq!(
        volume.server.ip_bytes,
        length(false, &[ANSWER]) + 2 * answer
    );
    assert_eq!(
        (
            volume.client.content().ip_bytes_again,
            volume.server.content().ip_bytes_again
        ),
        (0, answer)
    );
    assert_eq!(
        (
            volume.client.content().payload_bytes,
            volume.server.content().payload_bytes
        ),
        (10, 20)
    );
    assert!(volume.is_guessed);
    let timeline = &connection.timeline;
    assert_eq!(
        (timeline.attempt.bytes_sent, timeline.ttl),
        (1200, Some(57))
    );
    assert_eq!(
        connection
            .timeline
            .attempt
            .ack
            .as_ref()
            .unwrap()
            .at
            .datagram,
        1
    );
    assert_eq!(
        u64::from(timeline.attempt.bytes_received),
        length(false, &[ANSWER]) - 28
    );
}

#[test]
fn all_packets_of_a_datagram_are_opened_in_turn() {
    let mut feed = Feed::begun(&key_log());
    feed.log_packets();
    let packets = [
        ANSWER,
        initial(1, &[F::Ping]),
        handshake(0, &[F::Ping]),
        handshake(1, &[F::Ping]),
        one_rtt(0, &[F::Ping]),
    ];
    feed.packets(10, false, &packets).unwrap();
    feed.packets(
        20,
        true,
        &[handshake(0, &[F::Ping]), one_rtt(0, &[F::Ping])],
    )
    .unwrap();
    let kinds: Vec<_> = feed
        .logged()
        .into_iter()
        .map(|(kind, opened, _)| (kind, opened))
        .collect();
    let expected = [
        "initial",
        "initial",
        "handshake",
        "handshake",
        "1rtt",
        "handshake",
        "1rtt",
    ];
    assert_eq!(kinds, expected.map(|kind| (kind, true)));
    let connection = feed.one();
    assert_eq!(
        (connection.packets.client, connection.packets.server),
        (3, 5)
    );
}

#[test]
fn short_headers_have_the_length_of_the_connection_id() {
    // The client's connection ID has `length` bytes, and so has a connection ID that it did not issue.
    for length in [0, 5, 20] {
        for is_known in [true, false] {
            let cid = vec![2; length];
            let other = vec![7; length];
            let client = Sender {
                from: Some(&cid),
                ..Sender::CLIENT
            };
            let server = Sender {
                to: Some(if is_known { &cid } else { &other }),
                ..Sender::SERVER
            };
            let mut feed = Feed::new(&key_log());
            feed.sent(0, &client, &[HELLO]).unwrap();
            let (connection, _) = feed.sent(10, &server, &[one_rtt(0, &[F::Ping])]).unwrap();
            assert_eq!(connection.undecrypted_packets, 0, "{length} {is_known}");
        }
    }
}

#[test]
fn a_close_of_either_kind_is_read_in_an_initial() {
    let of_application = F::Raw(&[0x1d, 9, 0]);
    for (frame, code) in [(F::Close(7), 7), (of_application, 9)] {
        let mut feed = Feed::begun("");
        feed.packets(10, false, &[initial(0, &[frame])]).unwrap();
        let connection = feed.one();
        assert_eq!(answer(&connection), (Outcome::Closed, None));
        assert_eq!(
            connection.timeline.attempt.close.as_ref().unwrap().code,
            code
        );
    }
}

#[test]
fn frames_of_initials_are_of_the_kinds_allowed_there() {
    let ping = [1, 1];
    let stream = [0x0e, 0, 0, 1, 9];
    let close = [0x1d, 9, 0];
    let mut frames = FrameList::new();
    for (payload, is_initial, expected) in [
        (&ping[..], true, Ok(())),
        (&close, true, Ok(())),
        (&[], true, Err(Error::Malformed("packet without frames"))),
        (
            &stream,
            true,
            Err(Error::Malformed("frame that no Initial may hold")),
        ),
        (&[], false, Ok(())),
        (&stream, false, Ok(())),
        (&[0x21], false, Err(Error::UnknownFrame(0x21))),
    ] {
        frames.clear();
        assert_eq!(read_frames(payload, is_initial, &mut frames), expected);
    }
    frames.clear();
    read_frames(&ping, true, &mut frames).unwrap();
    assert_eq!(frames[..], [Frame::Ping, Frame::Ping]);
}

#[test]
fn a_migration_is_the_clients_and_under_1_rtt_keys() {
    let mut feed = Feed::answered(&key_log());
    feed.packets(20, true, &[handshake(5, &[F::Ping])]).unwrap();
    feed.packets(21, false, &[one_rtt(5, &[F::Ping])]).unwrap();
    assert_eq!(feed.one().migrations(), None);
}

#[test]
fn broken_frames_beyond_initials_are_no_fault_of_the_answer() {
    let mut feed = Feed::answered(&key_log());
    feed.packets(20, false, &[handshake(0, &[F::Ping, F::Unknown])])
        .unwrap();
    let connection = feed.one();
    assert_eq!(answer(&connection), (Outcome::Coalesced, None));
    assert_eq!(connection.undecrypted_packets, 0);
}

#[test]
fn broken_frames_hide_others_of_the_same_side_beyond_initials() {
    /// A CRYPTO frame that is longer than its packet.
    const CUT_SHORT: F = F::Raw(&[0x06, 0, 0x7f, 0xff]);
    // The sender, the packet, and whether frames of client and server are hidden.
    for (from_client, packet, hidden) in [
        (false, initial(9, &[CUT_SHORT]), (false, false)),
        (false, handshake(9, &[CUT_SHORT]), (false, true)),
        (false, one_rtt(9, &[CUT_SHORT]), (false, true)),
        (true, one_rtt(9, &[CUT_SHORT]), (true, false)),
    ] {
        let mut feed = Feed::answered(&key_log());
        feed.packets(20, from_client, &[packet]).unwrap();
        let connection = feed.one();
        let found = (
            connection.misses_frames(true),
            connection.misses_frames(false),
        );
        assert_eq!(found, hidden, "{packet:?}");
    }
}

#[test]
fn bytes_are_compared_with_those_before_if_there_are_keys() {
    for (keys, again) in [(key_log(), 1228), (String::new(), 0)] {
        let mut feed = Feed::begun(&keys);
        feed.packets(5, true, &[initial(1, &[F::ClientHello])])
            .unwrap();
        assert_eq!(feed.one().volume.client.content().ip_bytes_again, again);
    }
}
