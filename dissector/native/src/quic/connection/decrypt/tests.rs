//! How versions, Retry and connection IDs change the keys.

use super::super::testing::{
    ANSWER, CLIENT, F, Feed, MS, ODCID, RETRY, SERVER, SERVER_HANDSHAKE, Sender, WHOLE,
    client_hello, handshake, initial, key_log, key_log_of, one_rtt, retry, version_negotiation,
    zero_rtt,
};
use super::*;
use crate::quic::timeline::{Outcome, classify};
use firstflight_wire::CipherSuite;

/// Whether each packet since the last call was decrypted.
fn opened(feed: &mut Feed) -> Vec<bool> {
    feed.logged().iter().map(|(_, opened, _)| *opened).collect()
}

#[test]
fn packet_types_have_their_number_spaces() {
    for (kind, expected) in [
        (PacketType::Initial, Space::Initial),
        (PacketType::Handshake, Space::Handshake),
        (PacketType::ZeroRtt, Space::Application),
        (PacketType::OneRtt, Space::Application),
    ] {
        assert_eq!(space(kind), expected);
    }
}

#[test]
fn numbers_are_kept_by_space_and_side() {
    let mut connection = Feed::begun("").one();
    *connection.numbers.of(Space::Initial, true) = Duplicates::default();
    let all = [Space::Initial, Space::Handshake, Space::Application];
    let all = all
        .into_iter()
        .flat_map(|space| [(space, true), (space, false)]);
    for (i, (space, side)) in all.clone().enumerate() {
        assert!(!connection.numbers.of(space, side).is_repeat(i as u64));
    }
    for (i, (space, side)) in all.enumerate() {
        assert_eq!(connection.numbers.largest(space, side), Some(i as u64));
    }
}

#[test]
fn either_side_goes_over_to_a_compatible_version() {
    let v2 = |sender| Sender {
        version: Version::V2,
        ..sender
    };
    let mut feed = Feed::begun(&key_log());
    feed.log_packets();
    feed.sent(10, &v2(Sender::SERVER), &[ANSWER]).unwrap();
    feed.sent(20, &v2(Sender::CLIENT), &[initial(1, &[F::Ack(0, 0)])])
        .unwrap();
    feed.sent(20, &v2(Sender::CLIENT), &[handshake(0, &[F::Ping])])
        .unwrap();
    feed.sent(21, &v2(Sender::CLIENT), &[one_rtt(0, &[F::Ping])])
        .unwrap();
    feed.sent(22, &v2(Sender::SERVER), &[one_rtt(0, &[F::Ping])])
        .unwrap();
    assert_eq!(opened(&mut feed), [true; 5]);
    let connection = feed.one();
    assert_eq!(
        (connection.version, connection.version_in_use),
        (Version::V1, Version::V2)
    );
    assert_eq!(classify(&connection.timeline).outcome, Outcome::Coalesced);
    assert_eq!(connection.hello.sni.as_deref(), Some("www.example.net"));
}

#[test]
fn handshake_packets_name_the_version_in_use() {
    let mut feed = Feed::begun(&key_log());
    let v2 = Sender {
        version: Version::V2,
        ..Sender::SERVER
    };
    let (connection, _) = feed.sent(10, &v2, &[handshake(0, &[F::Ping])]).unwrap();
    assert_eq!(connection.undecrypted_packets, 0);
    assert_eq!(connection.version_in_use, Version::V2);
    // A packet that does not decrypt changes no state.
    let mut feed = Feed::begun("");
    let (connection, _) = feed.sent(10, &v2, &[handshake(0, &[F::Ping])]).unwrap();
    assert_eq!(connection.version_in_use, Version::V1);
}

#[test]
fn a_version_that_was_offered_begins_another_handshake() {
    let hello = client_hello(6, "other.example");
    for (offered, is_followed) in [(Version::V2, true), (Version::DRAFT_29, false)] {
        let mut feed = Feed::begun("");
        feed.bytes(10, false, &version_negotiation(CLIENT, ODCID, &[offered]));
        let v2 = Sender {
            version: Version::V2,
            ..Sender::CLIENT
        };
        feed.log_packets();
        // The same packet number again.
        feed.sent(20, &v2, &[initial(0, &[F::Crypto(0, hello)])])
            .unwrap();
        assert_eq!(feed.logged()[0].2 == "seen before", !is_followed);
        let answer = Sender {
            version: Version::V2,
            ..Sender::SERVER
        };
        feed.sent(30, &answer, &[ANSWER]).unwrap();
        let connection = feed.one();
        let sni = if is_followed {
            "other.example"
        } else {
            "www.example.net"
        };
        assert_eq!(connection.hello.sni.as_deref(), Some(sni), "{offered}");
        let rtt_ms = if is_followed { 10 } else { 30 };
        assert_eq!(connection.recovery.rtt.latest_ns, rtt_ms * MS);
        let outcome = classify(&connection.timeline).outcome;
        if is_followed {
            assert_eq!(outcome, Outcome::VersionNegotiation);
        } else {
            assert_eq!(outcome, Outcome::Coalesced);
        }
        assert_eq!(connection.version_in_use, Version::V2);
    }
}

#[test]
fn an_offer_may_be_followed_with_another_connection_id() {
    // The destination connection ID is the only sign that the packets belong to one connection.
    let mut feed = Feed::begun("");
    feed.bytes(
        10,
        false,
        &version_negotiation(CLIENT, ODCID, &[Version::V2]),
    );
    let v2 = Sender {
        version: Version::V2,
        to: Some(&SERVER),
        ..Sender::CLIENT
    };
    // Sealed for the first connection ID, not with the keys of the offered version's new handshake.
    feed.log_packets();
    feed.sent(20, &v2, &[initial(0, &[F::ClientHello])])
        .unwrap();
    assert_eq!(opened(&mut feed), [false]);
    assert_eq!(feed.one().version_in_use, Version::V1);
}

#[test]
fn the_client_names_the_connection_id_of_a_server_that_was_not_captured() {
    // Destination of the second Initial, and the server's connection ID afterwards.
    for (to, scid) in [(SERVER, Some(SERVER)), (ODCID, None)] {
        let mut feed = Feed::begun("");
        let sender = Sender {
            to: Some(&to),
            ..Sender::CLIENT
        };
        let (connection, _) = feed.sent(20, &sender, &[initial(1, &[F::Ping])]).unwrap();
        assert_eq!(connection.server_scid, scid.map(ConnectionId::from));
        assert_eq!(connection.undecrypted_packets, 0);
        assert!(connection.owns(true, &to));
        let owned = connection.server_cids.count();
        assert_eq!(owned, if scid.is_some() { 2 } else { 1 });
    }
    // A Retry's connection ID is not the server's final one.
    let mut feed = Feed::begun("");
    feed.bytes(5, false, &retry());
    let after = Sender::CLIENT_AFTER_RETRY;
    let (connection, _) = feed.sent(20, &after, &[initial(1, &[F::Ping])]).unwrap();
    assert_eq!(connection.server_scid, None);
}

#[test]
fn behind_a_cut_datagram_the_servers_connection_id_stays_unknown() {
    let mut feed = Feed::begun("");
    let answer = Sender::SERVER.datagram(&[ANSWER]);
    feed.cut(10, false, &answer, 30).unwrap();
    feed.packets(20, false, &[initial(1, &[F::Ping])]).unwrap();
    let (connection, _) = feed.packets(21, true, &[initial(1, &[F::Ping])]).unwrap();
    assert_eq!(connection.server_scid, None);
}

#[test]
fn the_connection_id_of_a_handshake_packet_is_known_from_then_on() {
    let long = [3; 5];
    let mut feed = Feed::begun(&key_log());
    let server = Sender {
        from: Some(&long),
        ..Sender::SERVER
    };
    let client = Sender {
        to: Some(&long),
        ..Sender::CLIENT
    };
    feed.sent(10, &server, &[handshake(0, &[F::Ping])]).unwrap();
    let (connection, _) = feed.sent(20, &client, &[one_rtt(0, &[F::Ping])]).unwrap();
    assert_eq!(connection.undecrypted_packets, 0);
    assert!(connection.owns(true, &long));
    // A new source connection ID of the client does not change its address.
    let other = Sender {
        from: Some(&[8; 8]),
        ..Sender::CLIENT
    };
    let (connection, _) = feed.sent(30, &other, &[handshake(0, &[F::Ping])]).unwrap();
    assert_eq!(connection.undecrypted_packets, 0);
    assert!(!connection.owns(true, &[8; 8]));
}

#[test]
fn a_retry_changes_keys_and_lets_the_server_begin_again() {
    let mut feed = Feed::begun("");
    // An Initial of the server that decrypts, but is invalid.
    feed.packets(2, false, &[initial(0, &[F::Unknown])])
        .unwrap();
    feed.bytes(5, false, &retry());
    let client = Sender::CLIENT_AFTER_RETRY;
    let server = Sender {
        from: Some(&[9; 8]),
        ..Sender::SERVER_AFTER_RETRY
    };
    let hello = client_hello(6, "other.example");
    feed.log_packets();
    feed.sent(10, &client, &[initial(1, &[F::Crypto(0, hello)])])
        .unwrap();
    feed.sent(
        20,
        &server,
        &[initial(0, &[F::Ack(1, 1), F::ServerHello(WHOLE)])],
    )
    .unwrap();
    // An ACK for a packet sent before the Retry gives no sample.
    feed.sent(25, &server, &[initial(1, &[F::Ack(0, 0)])])
        .unwrap();
    // The second Initial after the Retry does not start the handshake again.
    feed.sent(30, &client, &[initial(2, &[F::Ping])]).unwrap();
    let log: Vec<_> = feed.logged().into_iter().map(|(_, _, text)| text).collect();
    assert!(log.iter().all(|text| text != "seen before"), "{log:?}");
    let connection = feed.one();
    assert_eq!(connection.server_scid, Some([9; 8].into()));
    assert_eq!(connection.hello.sni.as_deref(), Some("other.example"));
    assert_eq!(connection.recovery.samples.len(), 1);
    assert_eq!(connection.recovery.samples[0].rtt_ns, 10 * MS);
    let answer = classify(&connection.timeline);
    assert_eq!(
        (answer.outcome, answer.hello_ns),
        (Outcome::Coalesced, Some(10 * MS))
    );
    assert_eq!(connection.undecrypted_packets, 0);
}

#[test]
fn a_retry_is_followed_by_an_initial_that_the_capture_cut() {
    let client = Sender::CLIENT_AFTER_RETRY;
    let server = Sender::SERVER_AFTER_RETRY;
    let mut feed = Feed::begun("");
    feed.bytes(5, false, &retry());
    let again = client.datagram(&[initial(1, &[F::ClientHello])]);
    feed.cut(10, true, &again, 60).unwrap();
    let (connection, _) = feed.sent(20, &server, &[initial(0, &[F::Ping])]).unwrap();
    assert_eq!(connection.server_scid, Some(SERVER.into()));
    assert!(connection.retry_followed);
    // An Initial to the first connection ID does not follow a Retry.
    let mut feed = Feed::begun("");
    feed.bytes(5, false, &retry());
    let other = Sender::CLIENT.datagram(&[initial(1, &[F::ClientHello])]);
    let (connection, _) = feed.cut(10, true, &other, 60).unwrap();
    assert!(!connection.retry_followed);
    // A packet of another type does not, either.
    let early = Sender {
        to: Some(&RETRY),
        ..Sender::CLIENT
    };
    let early = early.datagram(&[zero_rtt(0, &[F::Stream(0, 99)])]);
    let (connection, _) = feed.cut(11, true, &early, 40).unwrap();
    assert!(!connection.retry_followed);
}

#[test]
fn secrets_open_packets_of_one_side_only() {
    let keys = key_log_of(&[SERVER_HANDSHAKE], CipherSuite::Aes128GcmSha256);
    let mut feed = Feed::answered(&keys);
    feed.packets(20, true, &[handshake(0, &[F::Ping])]).unwrap();
    let (connection, _) = feed
        .packets(21, false, &[handshake(0, &[F::Ping])])
        .unwrap();
    assert_eq!(connection.undecrypted_packets, 1);
    assert_eq!(connection.numbers.largest(Space::Handshake, false), Some(0));
    assert_eq!(connection.numbers.largest(Space::Handshake, true), None);
}

#[test]
fn a_retry_outside_the_capture_changes_keys_as_well() {
    let client = Sender::CLIENT_AFTER_RETRY;
    let server = Sender::SERVER_AFTER_RETRY;
    let mut feed = Feed::begun("");
    let (connection, _) = feed
        .sent(7, &client, &[initial(1, &[F::ClientHello])])
        .unwrap();
    assert_eq!(connection.retry_scid, Some(RETRY.into()));
    assert!(connection.retry_followed && connection.owns(true, &RETRY));
    feed.sent(
        17,
        &server,
        &[initial(0, &[F::Ack(1, 1), F::ServerHello(WHOLE)])],
    )
    .unwrap();
    let connection = feed.one();
    assert_eq!(connection.undecrypted_packets, 0);
    let answer = classify(&connection.timeline);
    assert_eq!(
        (answer.outcome, answer.hello_ns),
        (Outcome::Coalesced, Some(7 * MS))
    );
    // The client's Initial does not set the server's connection ID.
    assert_eq!(connection.server_scid, Some(SERVER.into()));
}

#[test]
fn keys_after_a_retry_are_made_again_after_a_close() {
    let client = Sender::CLIENT_AFTER_RETRY;
    let server = Sender::SERVER_AFTER_RETRY;
    let mut feed = Feed::begun("");
    feed.bytes(5, false, &retry());
    feed.sent(7, &client, &[initial(1, &[F::ClientHello])])
        .unwrap();
    let (connection, _) = feed
        .sent(17, &server, &[initial(0, &[F::Close(1)])])
        .unwrap();
    assert!(connection.initial_keys.is_none());
    feed.sent(18, &server, &[initial(1, &[F::Ping])]).unwrap();
    let (connection, _) = feed.sent(19, &client, &[initial(2, &[F::Ping])]).unwrap();
    assert_eq!(connection.undecrypted_packets, 0);
    assert_eq!(connection.numbers.largest(Space::Initial, true), Some(2));
    assert_eq!(connection.numbers.largest(Space::Initial, false), Some(1));
}

#[test]
fn the_handshake_after_an_offer_has_secrets_of_its_own() {
    let of_second = key_log().replace(&"05".repeat(32), &"06".repeat(32));
    let mut feed = Feed::begun(&of_second);
    // The logs are searched for the first ClientHello's random.
    let (connection, _) = feed.packets(1, true, &[zero_rtt(0, &[F::Ping])]).unwrap();
    assert_eq!(connection.undecrypted_packets, 1);
    feed.bytes(
        10,
        false,
        &version_negotiation(CLIENT, ODCID, &[Version::V2]),
    );
    let v2 = |sender| Sender {
        version: Version::V2,
        ..sender
    };
    let hello = [F::Crypto(0, client_hello(6, "other.example"))];
    feed.sent(20, &v2(Sender::CLIENT), &[initial(0, &hello)])
        .unwrap();
    feed.sent(30, &v2(Sender::SERVER), &[ANSWER]).unwrap();
    let (connection, _) = feed
        .sent(40, &v2(Sender::CLIENT), &[one_rtt(0, &[F::Ping])])
        .unwrap();
    assert!(connection.has_keys());
    assert_eq!(connection.undecrypted_packets, 1);
}
