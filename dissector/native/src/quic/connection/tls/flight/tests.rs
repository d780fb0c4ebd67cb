//! A server's handshake messages, whole and in pieces.

use super::super::super::testing::{encrypted_extensions, written};
use super::*;

/// A handshake message: `begin`, followed by `zeros` zero bytes.
fn with_type(kind: u8, begin: &[u8], zeros: usize) -> &'static [u8] {
    written(|w| {
        w.message(kind, |w| {
            w.bytes(begin)?;
            w.zeros(zeros)
        })
        .unwrap();
    })
}

/// A Certificate with one certificate of 300 bytes.
fn certificate() -> &'static [u8] {
    with_type(11, &[0, 0, 1, 49, 0, 1, 44], 302)
}

/// ALPN, body of the parameters, bytes of certificates and of their message.
type Found = (Option<String>, Option<Vec<u8>>, Option<u64>, Option<u64>);

fn found(fields: &ServerFields) -> Found {
    (
        fields.alpn.as_deref().map(str::to_owned),
        fields.transport_parameters.as_deref().map(<[u8]>::to_vec),
        fields.certificate_bytes,
        fields.certificate_message_bytes,
    )
}

fn read(stream: &[u8]) -> Found {
    let mut fields = ServerFields::default();
    FlightReader::default().crypto(0, stream, &mut fields);
    found(&fields)
}

#[test]
fn messages_up_to_finished_are_read() {
    let extensions = encrypted_extensions(&[1, 1, 30]);
    let finished = with_type(20, &[], 32);
    let of_extensions = (Some("h3".to_owned()), Some(vec![1, 1, 30]));
    for (messages, expected) in [
        (&[extensions][..], (None, None)),
        (&[extensions, certificate()], (Some(300), Some(313))),
        // Other messages in between, and a compressed certificate.
        (
            &[extensions, with_type(13, &[], 5), certificate()],
            (Some(300), Some(313)),
        ),
        (&[extensions, with_type(25, &[], 200)], (None, Some(204))),
        (&[extensions, finished, certificate()], (None, None)),
        // A certificate that does not parse still has a size.
        (
            &[extensions, with_type(11, &[0, 9, 9, 9], 0)],
            (None, Some(8)),
        ),
    ] {
        let (alpn, parameters, bytes, message_bytes) = read(&messages.concat());
        assert_eq!((alpn, parameters), of_extensions);
        assert_eq!((bytes, message_bytes), expected);
    }
    assert_eq!(read(certificate()), (None, None, Some(300), Some(313)));
    assert_eq!(read(with_type(8, &[9], 0)), (None, None, None, None));
}

#[test]
fn pieces_are_read_in_any_order_and_once() {
    let stream = [encrypted_extensions(&[1, 1, 30]), certificate()].concat();
    for pieces in [
        &[(0, 400)][..],
        &[(0, 10), (10, 400)],
        &[(20, 400), (0, 20)],
        &[(0, 1), (1, 2), (2, 60), (60, 400)],
        &[(100, 400), (0, 50), (50, 100)],
        &[(0, 200), (0, 200), (150, 400)],
    ] {
        let mut reader = FlightReader::default();
        let mut fields = ServerFields::default();
        for (start, end) in pieces {
            let data = &stream[*start..stream.len().min(*end)];
            reader.crypto(*start as u64, data, &mut fields);
        }
        let expected = (
            Some("h3".to_owned()),
            Some(vec![1, 1, 30]),
            Some(300),
            Some(313),
        );
        assert_eq!(found(&fields), expected, "{pieces:?}");
        assert_eq!((reader.read, reader.is_over), (stream.len(), false));
    }
}

#[test]
fn after_the_end_nothing_is_read() {
    let finished = with_type(20, &[], 32);
    let mut reader = FlightReader::default();
    let mut fields = ServerFields::default();
    reader.crypto(0, finished, &mut fields);
    assert!(reader.is_over && reader.stream.contiguous().is_empty());
    let extensions = encrypted_extensions(&[1, 1, 30]);
    reader.crypto(finished.len() as u64, extensions, &mut fields);
    assert_eq!(found(&fields), (None, None, None, None));
    let mut reader = FlightReader::default();
    reader.end();
    assert!(reader.is_over);
    reader.crypto(0, extensions, &mut fields);
    assert_eq!(found(&fields), (None, None, None, None));
}

#[test]
fn a_flight_of_128_kb_is_followed_and_none_above() {
    for (bytes, is_read) in [(131_072, true), (131_073, false)] {
        let message = with_type(25, &[], 120_000);
        let mut stream = message.to_vec();
        stream.resize(bytes, 0);
        let expected = (None, None, None, is_read.then_some(120_004));
        assert_eq!(read(&stream), expected, "{bytes}");
    }
}
