//! A ClientHello, whole and in pieces.

use super::super::super::testing::{client_hello, written};
use super::*;

fn whole() -> &'static [u8] {
    client_hello(5, "www.example.net")
}

#[test]
fn a_hello_in_pieces_is_read_when_it_is_whole() {
    let hello = whole();
    let length = hello.len();
    for pieces in [
        &[(0, length)][..],
        &[(0, 3), (3, length)],
        &[(0, 4), (4, length)],
        &[(100, length), (0, 100)],
        &[(0, 50), (0, 60), (40, length)],
    ] {
        let mut reader = HelloReader::default();
        let mut fields = HelloFields::default();
        for (start, end) in pieces {
            assert!(fields.sni.is_none());
            reader.crypto(*start as u64, &hello[*start..*end], &mut fields);
        }
        assert_eq!(fields.sni.as_deref(), Some("www.example.net"));
        assert_eq!(fields.alpn.as_deref(), Some("h3"));
        assert_eq!(fields.random, Some([5; 32]));
        let parameters = fields.transport_parameters.unwrap();
        assert_eq!(parameters.first(), Some(&1));
        assert!(reader.is_read && reader.stream.is_none());
        assert_eq!(reader.second_hello(), Some(length as u64));
    }
}

#[test]
fn a_hello_does_not_start_at_a_later_offset() {
    let mut reader = HelloReader::default();
    let mut fields = HelloFields::default();
    reader.crypto(100, whole(), &mut fields);
    assert!(fields.sni.is_none() && !reader.is_read);
}

#[test]
fn random_and_end_are_known_before_the_whole() {
    let hello = whole();
    let end = Some(hello.len() as u64);
    for (bytes, random, end) in [
        (3, None, None),
        (4, None, end),
        (37, None, end),
        (38, Some([5; 32]), end),
        (39, Some([5; 32]), end),
    ] {
        let mut reader = HelloReader::default();
        let mut fields = HelloFields::default();
        reader.crypto(0, &hello[..bytes], &mut fields);
        assert_eq!(
            (fields.random, reader.second_hello()),
            (random, end),
            "{bytes}"
        );
        assert_eq!((reader.hello_end(0), reader.hello_end(7)), (end, None));
        assert!(fields.sni.is_none() && !reader.is_read);
    }
}

#[test]
fn the_end_is_the_sum_of_header_and_length() {
    let mut reader = HelloReader::default();
    reader.crypto(0, &[1, 1, 2, 3], &mut HelloFields::default());
    assert_eq!(reader.second_hello(), Some(4 + 0x1_0203));
    // Later bytes do not change it.
    reader.crypto(4, &[9; 10], &mut HelloFields::default());
    assert_eq!(reader.second_hello(), Some(4 + 0x1_0203));
}

#[test]
fn only_the_first_hello_is_read() {
    let second = client_hello(6, "other.example");
    let mut reader = HelloReader::default();
    let mut fields = HelloFields::default();
    reader.crypto(0, whole(), &mut fields);
    reader.crypto(whole().len() as u64, second, &mut fields);
    reader.crypto(0, second, &mut fields);
    assert_eq!(fields.sni.as_deref(), Some("www.example.net"));
    let mut reader = HelloReader::default();
    let mut fields = HelloFields::default();
    reader.end();
    reader.crypto(0, whole(), &mut fields);
    assert!(fields.sni.is_none() && reader.second_hello().is_none());
}

#[test]
fn another_message_ends_the_reading() {
    let other = written(|w| w.message(2, |w| w.zeros(40)).unwrap());
    let mut reader = HelloReader::default();
    let mut fields = HelloFields::default();
    reader.crypto(0, other, &mut fields);
    assert!(reader.is_read && fields.sni.is_none());
    assert_eq!(fields.random, Some([0; 32]));
}

#[test]
fn hellos_above_16_kb_are_refused() {
    for (bytes, is_known) in [(16_384, true), (16_385, false)] {
        let mut reader = HelloReader::default();
        let mut hello = vec![1, 0xff, 0, 0];
        hello.resize(bytes, 0);
        reader.crypto(0, &hello, &mut HelloFields::default());
        assert_eq!(reader.second_hello().is_some(), is_known, "{bytes}");
    }
}

#[test]
fn protocols_are_joined_by_commas() {
    const CASES: &[(&[&[u8]], Option<&str>)] = &[
        (&[], None),
        (&[b""], None),
        (&[b"h3"], Some("h3")),
        (&[b"h3", b"hq-29"], Some("h3,hq-29")),
        (&[b"h3", b""], Some("h3,")),
        (&[b"\xff\n", b"h3"], Some("\\xff\\n,h3")),
    ];
    for (protocols, expected) in CASES {
        let found = joined(protocols.iter().copied());
        assert_eq!(found.as_deref(), *expected, "{protocols:?}");
    }
}

#[test]
fn text_is_utf_8_or_escaped() {
    assert_eq!(&*text("h\u{e9}".as_bytes()), "h\u{e9}");
    assert_eq!(&*text(b"h\xe9"), "h\\xe9");
}
