//! The server's CRYPTO stream in pieces.

use super::*;
use firstflight_wire::Writer;
use firstflight_wire::tls::{write_hello_retry_request, write_server_hello};

fn message(write: impl Fn(&mut Writer<'_>) -> Result<(), Error>) -> Vec<u8> {
    let mut buf = [0; 256];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.written().to_vec()
}

#[test]
fn the_first_byte_may_come_before_or_after_the_rest() {
    let hello = message(|w| write_server_hello(w, &[1; 32], &[], 0x1301, 0x1d, &[2; 32]));
    let mut finder = Finder::new();
    assert_eq!(finder.crypto(60, &hello[60..]), Found::Nothing);
    assert_eq!(finder.crypto(0, &hello[..10]), Found::FirstByte);
    assert_eq!(finder.crypto(0, &hello[..60]), Found::Nothing);
    assert_eq!(finder.crypto(0, &hello), Found::Nothing);
}

#[test]
fn a_hello_retry_request_is_passed_over() {
    let retry = message(|w| write_hello_retry_request(w, &[], 0x1301, 0x17));
    let hello = message(|w| write_server_hello(w, &[1; 32], &[], 0x1301, 0x17, &[2; 65]));
    let mut finder = Finder::new();
    assert_eq!(finder.crypto(0, &retry[..20]), Found::FirstByte);
    assert_eq!(finder.crypto(20, &retry[20..]), Found::HelloRetry);
    assert_eq!(finder.crypto(retry.len() as u64, &hello), Found::FirstByte);
}

#[test]
fn other_messages_are_told() {
    assert_eq!(Finder::new().crypto(0, &[11, 0, 0, 9, 1]), Found::Other);
    assert_eq!(Finder::new().crypto(0, &[]), Found::Nothing);
}

fn hello() -> Vec<u8> {
    message(|w| write_server_hello(w, &[1; 32], &[], 0x1301, 0x1d, &[2; 32]))
}

#[test]
fn nothing_is_found_once_the_hello_is_known() {
    let hello = hello();
    for first in [&hello[..], &hello[..38]] {
        let mut finder = Finder::new();
        assert_eq!(finder.crypto(0, first), Found::FirstByte);
        assert!(finder.done && finder.stream.is_none());
        assert_eq!(finder.crypto(0, &hello), Found::Nothing);
        assert_eq!(finder.crypto(0, &[11; 60]), Found::Nothing);
    }
}

#[test]
fn the_first_byte_may_stand_in_the_middle_of_a_frame() {
    let retry = message(|w| write_hello_retry_request(w, &[], 0x1301, 0x17));
    let both = [&retry[..], &hello()].concat();
    // Bytes of the first frame and the result; then the offset of a second frame and the result.
    for (first, found, offset, rest) in [
        (
            retry.len(),
            Found::HelloRetry,
            retry.len(),
            Found::FirstByte,
        ),
        (retry.len(), Found::HelloRetry, 0, Found::FirstByte),
        (retry.len(), Found::HelloRetry, 5, Found::FirstByte),
        // The second frame repeats the ServerHello's first byte, which the first frame carried after the
        // HelloRetryRequest.
        (retry.len() + 1, Found::HelloRetry, 0, Found::FirstByte),
        (20, Found::FirstByte, 0, Found::HelloRetry),
        (20, Found::FirstByte, 19, Found::HelloRetry),
    ] {
        let mut finder = Finder::new();
        assert_eq!(finder.crypto(0, &both[..first]), found);
        let offset_on_wire = offset as u64;
        let found = finder.crypto(offset_on_wire, &both[offset..]);
        assert_eq!(found, rest, "{first} {offset}");
    }
}

#[test]
fn bytes_beside_the_first_are_nothing() {
    let hello = hello();
    for offset in [1, 37, 38, 60] {
        let mut finder = Finder::new();
        let found = finder.crypto(offset, &hello[offset as usize..]);
        assert_eq!(found, Found::Nothing, "{offset}");
    }
    let retry = message(|w| write_hello_retry_request(w, &[], 0x1301, 0x17));
    let mut finder = Finder::new();
    assert_eq!(finder.crypto(0, &retry), Found::HelloRetry);
    // After the first byte of the message.
    let after = retry.len() as u64 + 1;
    assert_eq!(finder.crypto(after, &hello[1..]), Found::Nothing);
    // Before the message.
    assert_eq!(finder.crypto(0, &retry), Found::Nothing);
}

#[test]
fn a_hello_in_pieces_is_found_by_its_first_38_bytes() {
    let hello = hello();
    for (end, is_done) in [(37, false), (38, true)] {
        let mut finder = Finder::new();
        assert_eq!(finder.crypto(0, &hello[..1]), Found::FirstByte);
        assert_eq!(finder.crypto(1, &hello[1..end]), Found::Nothing);
        assert_eq!(finder.done, is_done, "{end}");
        assert_eq!(finder.stream.is_none(), is_done, "{end}");
    }
}

#[test]
fn another_message_is_recognized_by_its_first_bytes_once() {
    let mut finder = Finder::new();
    assert_eq!(finder.crypto(0, &[2]), Found::FirstByte);
    // A length that no ServerHello has.
    assert_eq!(finder.crypto(1, &[0, 0, 9]), Found::Other);
    assert_eq!(finder.crypto(4, &[0; 9]), Found::Nothing);
}

#[test]
fn no_more_than_8_kb_are_kept() {
    let hello = hello();
    let mut finder = Finder::new();
    assert_eq!(finder.crypto(100, &[0; 8192]), Found::Nothing);
    assert_eq!(finder.crypto(0, &hello[..30]), Found::FirstByte);
    // The missing bytes do not fit, so the type stays unknown.
    assert_eq!(finder.crypto(30, &hello[30..60]), Found::Nothing);
    assert!(!finder.done);
    let mut finder = Finder::new();
    assert_eq!(finder.crypto(100, &[0; 8000]), Found::Nothing);
    assert_eq!(finder.crypto(0, &hello[..30]), Found::FirstByte);
    assert_eq!(finder.crypto(30, &hello[30..60]), Found::Nothing);
    assert!(finder.done);
}

#[test]
fn the_first_byte_comes_once() {
    let hello = hello();
    let mut finder = Finder::new();
    assert_eq!(finder.crypto(0, &hello[..5]), Found::FirstByte);
    for _ in 0..3 {
        assert_eq!(finder.crypto(0, &hello[..5]), Found::Nothing);
    }
}

#[test]
fn a_hello_that_begins_before_the_message_is_none() {
    let retry = message(|w| write_hello_retry_request(w, &[], 0x1301, 0x17));
    for (before, found) in [(0, Found::FirstByte), (5, Found::Other)] {
        let mut finder = Finder::new();
        assert_eq!(finder.crypto(0, &retry), Found::HelloRetry);
        let offset = (retry.len() - before) as u64;
        assert_eq!(finder.crypto(offset, &hello()), found, "{before}");
    }
}
