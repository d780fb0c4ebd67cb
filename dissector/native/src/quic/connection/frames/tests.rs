//! How frames of either side change a connection.

use super::super::testing::{
    ANSWER, F, Feed, HANDSHAKE_DONE, MS, RANDOM, client_hello, encrypted_extensions, handshake,
    hello_retry_request, initial, key_log, one_rtt, server_hello,
};
use super::*;
use crate::quic::timeline::{Outcome, classify};

#[test]
fn the_servers_parameters_say_how_it_delays_its_acknowledgements() {
    for (parameters, exponent, max_ms) in [
        (&[][..], 3, 25),
        (&[0x0a, 1, 5], 5, 25),
        (&[0x0b, 1, 40], 3, 40),
        (&[0x0b, 1, 40, 0x0a, 1, 0], 0, 40),
        // Not an integer.
        (&[0x0a, 2, 5, 5], 3, 25),
    ] {
        let extensions = encrypted_extensions(parameters);
        let mut feed = Feed::answered(&key_log());
        let before = feed
            .packets(20, false, &[handshake(0, &[F::Ping])])
            .unwrap()
            .0;
        assert_eq!(before.recovery.ack_delay.exponent, 3);
        feed.packets(21, false, &[handshake(1, &[F::Crypto(0, extensions)])])
            .unwrap();
        let connection = feed.one();
        let delay = connection.recovery.ack_delay;
        assert_eq!(
            (delay.exponent, delay.max_ms),
            (exponent, max_ms),
            "{parameters:?}"
        );
        assert_eq!(connection.server_fields().alpn.as_deref(), Some("h3"));
    }
}

#[test]
fn the_first_parameters_stay() {
    let [first, second] = [1, 2].map(|n| encrypted_extensions(&[0x0a, 1, n]));
    let mut feed = Feed::answered(&key_log());
    feed.packets(20, false, &[handshake(0, &[F::Crypto(0, first)])])
        .unwrap();
    let next = F::Crypto(first.len() as u64, second);
    feed.packets(21, false, &[handshake(1, &[next])]).unwrap();
    assert_eq!(feed.one().recovery.ack_delay.exponent, 1);
}

#[test]
fn a_flight_is_the_servers_and_under_handshake_keys() {
    let flight = F::Crypto(0, encrypted_extensions(&[0x0a, 1, 5]));
    let mut feed = Feed::answered(&key_log());
    feed.packets(20, true, &[handshake(0, &[flight])]).unwrap();
    feed.packets(21, false, &[one_rtt(0, &[flight])]).unwrap();
    feed.packets(22, false, &[initial(1, &[flight])]).unwrap();
    let connection = feed.one();
    assert_eq!(connection.undecrypted_packets, 0);
    assert!(connection.server_fields().transport_parameters.is_none());
    assert_eq!(connection.recovery.ack_delay.exponent, 3);
}

#[test]
fn a_preferred_address_brings_a_connection_id() {
    let mut parameters = vec![0x0d, 41];
    parameters.extend([0; 24]);
    parameters.extend([8, 7, 7, 7, 7, 7, 7, 7, 7]);
    parameters.extend([0; 8]);
    let extensions = encrypted_extensions(&parameters);
    let mut feed = Feed::answered(&key_log());
    let found = feed.packets(20, false, &[handshake(0, &[F::Crypto(0, extensions)])]);
    assert!(found.unwrap().0.owns(true, &[7; 8]));
}

#[test]
fn the_handshake_is_confirmed_by_the_server() {
    let done = [one_rtt(0, &[HANDSHAKE_DONE])];
    for (from_client, is_confirmed) in [(true, false), (false, true)] {
        let mut feed = Feed::answered(&key_log());
        let (connection, _) = feed.packets(20, from_client, &done).unwrap();
        assert_eq!(connection.recovery.handshake_confirmed, is_confirmed);
    }
}

#[test]
fn connection_ids_are_taken_from_both_sides() {
    for from_client in [true, false] {
        let mut feed = Feed::answered(&key_log());
        let packet = [one_rtt(0, &[F::NewCid([7; 8])])];
        let (connection, _) = feed.packets(20, from_client, &packet).unwrap();
        assert!(connection.owns(!from_client, &[7; 8]));
        assert!(!connection.owns(from_client, &[7; 8]));
    }
}

#[test]
fn the_first_close_stays() {
    let of_application = F::Raw(&[0x1d, 9, 3, b'b', 0xff, b'e']);
    // Frames of two packets, and the close: by the client, by the application, code, reason.
    for (first, second, expected) in [
        (
            (true, F::Close(7)),
            (false, F::Close(8)),
            (true, false, 7, "reason"),
        ),
        (
            (false, F::Close(7)),
            (true, F::Close(8)),
            (false, false, 7, "reason"),
        ),
        (
            (true, of_application),
            (true, F::Close(8)),
            (true, true, 9, "b\u{fffd}e"),
        ),
        (
            (false, F::Ping),
            (false, of_application),
            (false, true, 9, "b\u{fffd}e"),
        ),
    ] {
        let mut feed = Feed::answered(&key_log());
        feed.packets(20, first.0, &[one_rtt(0, &[first.1])])
            .unwrap();
        feed.packets(21, second.0, &[one_rtt(1, &[second.1])])
            .unwrap();
        let connection = feed.one();
        assert!(connection.closed);
        let closing = connection.closing.as_deref().unwrap();
        let is_second = matches!(first.1, F::Ping);
        assert_eq!(closing.ns, if is_second { 21 * MS } else { 20 * MS });
        assert_eq!(
            (
                closing.by_client,
                closing.by_application,
                closing.code,
                &*closing.reason
            ),
            expected
        );
    }
}

#[test]
fn after_a_close_only_payload_is_followed() {
    let extensions = encrypted_extensions(&[0x0a, 1, 5]);
    let mut feed = Feed::answered(&key_log());
    feed.packets(20, true, &[one_rtt(0, &[F::Stream(0, 10)])])
        .unwrap();
    feed.packets(30, false, &[one_rtt(0, &[F::Close(7)])])
        .unwrap();
    // An ACK gives no sample, the flight is not read, and bytes still count as new or repeated.
    feed.packets(40, false, &[one_rtt(1, &[F::Ack(0, 0)])])
        .unwrap();
    feed.packets(41, false, &[handshake(0, &[F::Crypto(0, extensions)])])
        .unwrap();
    feed.packets(42, true, &[one_rtt(1, &[F::Stream(0, 12)])])
        .unwrap();
    let connection = feed.one();
    assert_eq!(connection.undecrypted_packets, 0);
    assert_eq!(connection.recovery.rtt.samples, 1);
    assert!(connection.server_fields().transport_parameters.is_none());
    assert_eq!(connection.volume.client.content().payload_bytes, 12);
}

#[test]
fn the_server_hello_names_the_suite() {
    const CHACHA: CipherSuite = CipherSuite::ChaCha20Poly1305Sha256;
    let (first, second) = (server_hello(0x1303), server_hello(0x1302));
    let retry = hello_retry_request();
    let after = retry.len() as u64;
    // CRYPTO frames of the server's Initials, and the suite.
    for (i, (frames, suite)) in [
        (&[F::Crypto(0, first)][..], Some(CHACHA)),
        (&[F::Crypto(0, first), F::Crypto(0, second)], Some(CHACHA)),
        // In pieces, or elsewhere.
        (
            &[F::Crypto(0, &first[..50]), F::Crypto(50, &first[50..])],
            None,
        ),
        (&[F::Crypto(0, &first[..50]), F::Crypto(3, first)], None),
        (&[F::Crypto(0, retry)], None),
        (
            &[F::Crypto(0, retry), F::Crypto(after, first)],
            Some(CHACHA),
        ),
        (&[F::Crypto(0, server_hello(0x1399))], None),
    ]
    .into_iter()
    .enumerate()
    {
        let mut feed = Feed::begun("");
        for (n, frame) in frames.iter().enumerate() {
            let packet = [initial(n as u64, std::slice::from_ref(frame))];
            feed.packets(10, false, &packet).unwrap();
        }
        assert_eq!(feed.one().cipher_suite(), suite, "{i}");
    }
    // The client's CRYPTO frames choose no suite.
    let mut feed = Feed::begun("");
    let frames = [F::Crypto(600, first)];
    feed.packets(10, true, &[initial(1, &frames)]).unwrap();
    assert_eq!(feed.one().cipher_suite(), None);
}

#[test]
fn after_a_hello_retry_request_the_second_hello_is_answered() {
    let retry = hello_retry_request();
    let first = client_hello(RANDOM, "www.example.net");
    let second_at = first.len() as u64;
    let second = F::Crypto(second_at, client_hello(RANDOM, "www.example.net"));
    let mut feed = Feed::begun("");
    let frames = [F::Ack(0, 0), F::Crypto(0, retry)];
    let (connection, _) = feed.packets(10, false, &[initial(0, &frames)]).unwrap();
    assert!(connection.timeline.hello_retry);
    assert_eq!(connection.timeline.attempt.hello.from, 0);
    // A repetition of the first ClientHello is not a second one.
    feed.packets(12, true, &[initial(1, &[F::ClientHello])])
        .unwrap();
    let (connection, _) = feed.packets(15, true, &[initial(2, &[second])]).unwrap();
    assert_eq!(connection.timeline.attempt.hello.from, second_at);
    let (connection, _) = feed.packets(18, true, &[initial(3, &[second])]).unwrap();
    assert_eq!(connection.timeline.client_hello_copies, 4);
    let hello = F::Crypto(retry.len() as u64, server_hello(0x1301));
    feed.packets(25, false, &[initial(1, &[F::Ack(2, 2), hello])])
        .unwrap();
    let connection = feed.one();
    let answer = classify(&connection.timeline);
    assert_eq!(
        (answer.outcome, answer.hello_ns),
        (Outcome::Coalesced, Some(15 * MS))
    );
}

#[test]
fn without_a_hello_retry_request_further_bytes_are_no_second_hello() {
    let first = client_hello(RANDOM, "www.example.net");
    let more = F::Crypto(first.len() as u64, b"more");
    let mut feed = Feed::begun("");
    let (connection, _) = feed.packets(15, true, &[initial(1, &[more])]).unwrap();
    assert_eq!(connection.timeline.attempt.hello.from, 0);
    // The end is known, so the ACK of the ClientHello is sufficient.
    feed.packets(20, false, &[ANSWER]).unwrap();
    let connection = feed.one();
    assert_eq!(classify(&connection.timeline).outcome, Outcome::Coalesced);
}

#[test]
fn a_hello_in_pieces_within_one_packet_ends_where_its_header_says() {
    let hello = client_hello(RANDOM, "www.example.net");
    let (a, b) = hello.split_at(100);
    let mut feed = Feed::new("");
    // The second frame has the message's header. A third part follows later.
    let frames = [F::Crypto(100, &b[..50]), F::Crypto(0, a)];
    feed.packets(0, true, &[initial(0, &frames)]).unwrap();
    feed.packets(5, false, &[initial(0, &[F::Ack(0, 0)])])
        .unwrap();
    feed.packets(7, true, &[initial(1, &[F::Crypto(150, &b[50..])])])
        .unwrap();
    feed.packets(12, false, &[initial(1, &[F::Ack(1, 0)])])
        .unwrap();
    let connection = feed.one();
    let answer = classify(&connection.timeline);
    assert_eq!(answer.partial_ack, Some((5 * MS, 0)));
    assert_eq!(answer.ack.map(|ack| ack.at.ns), Some(12 * MS));
    assert_eq!(connection.timeline.client_hello_copies, 1);
}

#[test]
fn after_a_close_the_hello_is_not_read_further() {
    let hello = client_hello(RANDOM, "www.example.net");
    let (a, b) = hello.split_at(100);
    let mut feed = Feed::new("");
    let frames = [F::Crypto(0, a), F::Close(1)];
    feed.packets(0, true, &[initial(0, &frames)]).unwrap();
    let frames = [F::Crypto(100, b)];
    let (connection, _) = feed.packets(1, true, &[initial(1, &frames)]).unwrap();
    assert_eq!(connection.numbers.largest(Space::Initial, true), Some(1));
    assert!(connection.hello.sni.is_none());
}
