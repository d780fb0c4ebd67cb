//! The first bytes of the CRYPTO stream, in pieces and repeated.

use super::*;

fn hello_retry_request() -> Vec<u8> {
    let mut bytes = [0; 100];
    let mut w = Writer::new(&mut bytes);
    let suite = number::TLS_AES_128_GCM_SHA256;
    write_hello_retry_request(&mut w, &[], suite, number::SECP384R1).unwrap();
    w.written().to_vec()
}

/// Initials with one CRYPTO frame each: an offset and the bytes there.
fn pieces(frames: &[(u64, &[u8])]) -> Vec<Vec<u8>> {
    let initials = (0..)
        .zip(frames)
        .map(|(number, (offset, data))| initial(number, &|w| write_crypto(w, *offset, data)));
    initials.collect()
}

#[test]
fn a_message_is_recognised_whatever_the_order_of_its_pieces() {
    let request = hello_retry_request();
    let more = [&request[30..], &[9; 100]].concat();
    for (name, frames) in [
        ("at once", &[(0, &request[..])][..]),
        ("its prefix alone", &[(0, &request[..38])]),
        ("two pieces", &[(0, &request[..20]), (20, &request[20..])]),
        (
            "the last byte alone",
            &[(0, &request[..37]), (37, &request[37..])],
        ),
        (
            "the end first",
            &[(37, &request[37..]), (0, &request[..37])],
        ),
        ("with what follows it", &[(0, &request[..30]), (30, &more)]),
        (
            "pieces that overlap",
            &[
                (10, &request[10..38]),
                (5, &request[5..38]),
                (0, &request[..5]),
            ],
        ),
        (
            "a piece twice",
            &[(0, &request[..9]), (0, &request[..9]), (9, &request[9..])],
        ),
        (
            "all of it behind a piece",
            &[(0, &request[..9]), (0, &request)],
        ),
    ] {
        let (_, exchange) = outcome_of(&pieces(frames));
        assert_eq!(
            (exchange.hello_retry, exchange.hello),
            (true, None),
            "{name}"
        );
        assert!(
            exchange.rare.is_none_or(|rare| rare.pieces.is_none()),
            "{name}"
        );
    }
}

#[test]
fn what_is_missing_or_lies_beyond_decides_nothing() {
    let request = hello_retry_request();
    for (name, frames, seen) in [
        ("no bytes", &[(0, &request[..0])][..], false),
        ("bytes behind the prefix", &[(38, &request[38..])], false),
        ("bytes far behind it", &[(1000, &[9; 50])], false),
        ("the end without the start", &[(1, &request[1..])], false),
        ("the start without the end", &[(0, &request[..37])], true),
    ] {
        let (_, exchange) = outcome_of(&pieces(frames));
        assert!(!exchange.hello_retry, "{name}");
        assert_eq!(exchange.hello.is_some(), seen, "{name}");
    }
}

#[test]
fn the_first_byte_of_a_server_hello_in_pieces_counts() {
    let bytes = hello_bytes();
    for (name, frames, at, packet_number) in [
        ("at once", &[(0, &bytes[..])][..], 1_000_000, 0),
        (
            "two pieces",
            &[(0, &bytes[..10]), (10, &bytes[10..])],
            1_000_000,
            0,
        ),
        (
            "the end first",
            &[(10, &bytes[10..]), (0, &bytes[..10])],
            2_000_000,
            1,
        ),
        (
            "all of it behind a piece",
            &[(0, &bytes[..10]), (0, &bytes)],
            1_000_000,
            0,
        ),
        ("no bytes before it", &[(0, &[]), (0, &bytes)], 2_000_000, 1),
    ] {
        let (outcome, exchange) = outcome_of(&pieces(frames));
        let hello = exchange.hello.unwrap();
        assert_eq!(
            (hello.at, hello.packet_number),
            (at, packet_number),
            "{name}"
        );
        assert_eq!(hello.datagram, packet_number as u16 + 1, "{name}");
        assert_eq!(outcome, Outcome::ShFirst, "{name}");
    }
}

#[test]
fn a_decision_stays_whatever_comes_in_its_place() {
    let (hello, request) = (hello_bytes(), hello_retry_request());
    let other = [11; 40];
    for (name, frames, expected) in [
        (
            "hello, then another message",
            [(0, &hello[..]), (0, &other)],
            (false, true),
        ),
        (
            "hello, then a request",
            [(0, &hello), (0, &request)],
            (false, true),
        ),
        (
            "request, then a hello",
            [(0, &request), (0, &hello)],
            (true, false),
        ),
        (
            "request, then another message",
            [(0, &request), (0, &other)],
            (true, false),
        ),
    ] {
        let (_, exchange) = outcome_of(&pieces(&frames));
        let found = (exchange.hello_retry, exchange.hello.is_some());
        assert_eq!((found, exchange.malformed), (expected, false), "{name}");
    }
}

#[test]
fn another_message_is_malformed_and_a_hello_may_follow() {
    let (other, hello) = ([11; 40], hello_bytes());
    let (outcome, exchange) = outcome_of(&pieces(&[(0, &other)]));
    assert_eq!((outcome, exchange.malformed), (Outcome::Malformed, true));
    let (outcome, exchange) = outcome_of(&pieces(&[(0, &other), (0, &hello)]));
    assert_eq!(
        (outcome, exchange.hello.unwrap().at),
        (Outcome::ShFirst, 2_000_000)
    );
}
