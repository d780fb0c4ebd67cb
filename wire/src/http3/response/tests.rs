//! The request stream, as a whole and in pieces.

use super::super::field_lines::write_section;
use super::*;
use crate::Writer;

/// A frame of this type.
fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; payload.len() + 16];
    let mut w = Writer::new(&mut out);
    w.varint(kind).unwrap();
    w.varint_bytes(payload).unwrap();
    let size = w.position();
    out.truncate(size);
    out
}

fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = [0; 1000];
    let mut w = Writer::new(&mut out);
    write_section(&mut w, fields).unwrap();
    frame(frame_type::HEADERS, w.written())
}

/// Reads the stream in pieces of `size` bytes; returns the reader and the result at the end of the stream.
fn read(stream: &[u8], limit: usize, size: usize) -> (ResponseStream, Result<(), Http3Error>) {
    let mut reader = ResponseStream::new(limit);
    let pushed = stream
        .chunks(size)
        .map(|piece| reader.push(piece))
        .collect::<Result<Vec<()>, _>>();
    let done = pushed.and_then(|_| reader.finish());
    if done.is_err() {
        assert_eq!(reader.push(&[]), done, "an error stays");
        assert_eq!(reader.finish(), done);
    }
    (reader, done)
}

const OK: [(&str, &str); 2] = [(":status", "200"), ("server", "lab")];
const EARLY: [(&str, &str); 2] = [(":status", "103"), ("link", "</x>")];

#[test]
fn messages_in_pieces_of_any_size() {
    let grease = frame(0x21 + 0x1f * 9, &[7; 70]);
    let trailers = headers(&[("x-sum", "1")]);
    let data = frame(frame_type::DATA, &[9; 100]);
    let empty = frame(frame_type::DATA, &[]);
    for (frames, informational, content) in [
        (vec![headers(&OK)], 0, 0),
        (vec![headers(&OK), data.clone(), empty], 0, 100),
        (vec![headers(&OK), trailers.clone()], 0, 0),
        (
            vec![
                grease.clone(),
                headers(&EARLY),
                grease.clone(),
                headers(&[(":status", "100")]),
                headers(&OK),
                grease.clone(),
                data.clone(),
                grease.clone(),
                data,
                trailers,
                grease,
            ],
            2,
            200,
        ),
    ] {
        let stream = frames.concat();
        for size in 1..=stream.len() {
            let (reader, done) = read(&stream, 200, size);
            assert_eq!(done, Ok(()));
            let response = reader.response().unwrap();
            assert_eq!(response.status, 200);
            let fields: Vec<_> = response.fields.iter().collect();
            assert_eq!(fields, [(&b"server"[..], &b"lab"[..])]);
            assert_eq!(response.fields.size(), 7 + 3 + 32 + 6 + 3 + 32);
            assert_eq!(reader.informational(), informational);
            assert_eq!(reader.content_bytes(), content);
        }
    }
}

#[test]
fn what_breaks_a_rule() {
    let response = headers(&OK);
    let after = |frame: Vec<u8>| [response.clone(), frame].concat();
    let trailers = || headers(&[("x", "")]);
    let raw = |section: &[u8]| frame(frame_type::HEADERS, section);
    let message = code::MESSAGE_ERROR;
    let on_control = "frame of the control stream on a request stream";
    for (stream, code, cause) in [
        (
            vec![],
            code::REQUEST_INCOMPLETE,
            "stream ends without a response",
        ),
        (
            headers(&EARLY),
            code::REQUEST_INCOMPLETE,
            "stream ends without a response",
        ),
        (vec![1], code::FRAME_ERROR, "stream ends inside a frame"),
        (
            after(vec![0, 5, 1]),
            code::FRAME_ERROR,
            "stream ends inside a frame",
        ),
        (
            frame(0, b"x"),
            code::FRAME_UNEXPECTED,
            "DATA before a response",
        ),
        (
            [headers(&EARLY), frame(0, b"")].concat(),
            code::FRAME_UNEXPECTED,
            "DATA before a response",
        ),
        (
            after([trailers(), frame(0, b"x")].concat()),
            code::FRAME_UNEXPECTED,
            "DATA after trailers",
        ),
        (
            after([trailers(), trailers()].concat()),
            code::FRAME_UNEXPECTED,
            "HEADERS after trailers",
        ),
        (frame(3, &[0]), code::FRAME_UNEXPECTED, on_control),
        (after(frame(4, &[])), code::FRAME_UNEXPECTED, on_control),
        (after(frame(7, &[0])), code::FRAME_UNEXPECTED, on_control),
        (frame(0x0d, &[0]), code::FRAME_UNEXPECTED, on_control),
        (
            frame(5, &[0]),
            code::ID_ERROR,
            "push promised that was not allowed",
        ),
        (frame(2, &[]), code::FRAME_UNEXPECTED, "frame of HTTP/2"),
        (frame(6, &[]), code::FRAME_UNEXPECTED, "frame of HTTP/2"),
        (
            after(frame(8, &[])),
            code::FRAME_UNEXPECTED,
            "frame of HTTP/2",
        ),
        (frame(9, &[]), code::FRAME_UNEXPECTED, "frame of HTTP/2"),
        (headers(&[]), message, "response without :status"),
        (
            headers(&[("server", "x")]),
            message,
            "response without :status",
        ),
        (
            headers(&[("server", "x"), (":status", "200")]),
            message,
            ":status after other fields",
        ),
        (
            headers(&[(":status", "200"), (":status", "200")]),
            message,
            ":status twice",
        ),
        (
            headers(&[(":status", "200"), (":path", "/")]),
            message,
            "pseudo-header field of no response",
        ),
        (
            after(headers(&[(":status", "200")])),
            message,
            "pseudo-header field in trailers",
        ),
        (headers(&[(":status", "20")]), message, "value of :status"),
        (headers(&[(":status", "2000")]), message, "value of :status"),
        (headers(&[(":status", "099")]), message, "value of :status"),
        (headers(&[(":status", "2x0")]), message, "value of :status"),
        (headers(&[(":status", "20:")]), message, "value of :status"),
        (
            headers(&[(":status", "200"), ("Server", "x")]),
            message,
            "name of a field",
        ),
        (
            headers(&[(":status", "200"), ("", "x")]),
            message,
            "name of a field",
        ),
        (
            headers(&[(":status", "200"), ("server", "a\nb")]),
            message,
            "value of a field",
        ),
        (after(headers(&[("x\0", "")])), message, "name of a field"),
        (
            raw(&[]),
            code::QPACK_DECOMPRESSION_FAILED,
            "field section ends early",
        ),
        (
            raw(&[1, 0, 0xd9]),
            code::QPACK_DECOMPRESSION_FAILED,
            "reference to the dynamic table",
        ),
        (
            after(raw(&[0, 0, 0x80])),
            code::QPACK_DECOMPRESSION_FAILED,
            "reference to the dynamic table",
        ),
    ] {
        for size in 1..=stream.len().max(1) {
            let (reader, done) = read(&stream, 200, size);
            assert_eq!(done, Err(Http3Error { code, cause }), "{stream:02x?}");
            let is_whole = reader.response().is_some();
            assert_eq!(is_whole, stream.starts_with(&response), "a response stays");
        }
    }
}

#[test]
fn every_status_of_three_digits() {
    for (value, status) in [("200", 200), ("404", 404), ("599", 599), ("999", 999)] {
        let (reader, done) = read(&headers(&[(":status", value)]), 200, 64);
        assert_eq!(done, Ok(()));
        assert_eq!(
            reader.response().map(|response| response.status),
            Some(status)
        );
    }
    for value in ["100", "199"] {
        let (reader, _) = read(&headers(&[(":status", value)]), 200, 64);
        assert_eq!((reader.informational(), reader.response()), (1, None));
    }
}

#[test]
fn the_limit_holds_for_the_frame_and_for_what_it_means() {
    let stream = headers(&OK);
    let decoded = 42 + 41;
    assert!(read(&stream, decoded, 64).1.is_ok());
    let error = |stream: &[u8], limit| read(stream, limit, 64).1.unwrap_err();
    let excessive = |cause| Http3Error::excessive(cause);
    let fields_above = excessive("field section above the limit");
    let frame_above = excessive("HEADERS frame above the limit");
    assert_eq!(error(&stream, decoded - 1), fields_above);
    let payload = stream.len() - 2;
    assert_eq!(error(&stream, payload), fields_above);
    assert_eq!(error(&stream, payload - 1), frame_above);
    // One byte of the frame decodes to 118 bytes.
    let bomb = frame(
        frame_type::HEADERS,
        &[&[0, 0, 0xd9][..], &[0xff, 22].repeat(90)].concat(),
    );
    assert_eq!(error(&bomb, 200), fields_above);
    let trailers = [stream.clone(), headers(&[("x", &"y".repeat(100))])].concat();
    assert_eq!(error(&trailers, 120), fields_above);
}

#[test]
fn lengths_allocate_nothing() {
    // HEADERS and DATA of 2^62 - 1 bytes, but only a few bytes arrive.
    let mut reader = ResponseStream::new(usize::MAX);
    reader
        .push(&[&[1][..], &[0xff; 8], &[0; 20]].concat())
        .unwrap();
    assert!(reader.section.as_ref().unwrap().capacity() < 100);
    let mut reader = ResponseStream::new(1000);
    reader.push(&headers(&OK)).unwrap();
    for kind in [0, 0x21] {
        let mut reader = reader.clone();
        reader.push(&[&[kind][..], &[0xff; 8]].concat()).unwrap();
        for _ in 0..100 {
            reader.push(&[0x41; 1000]).unwrap();
        }
        assert_eq!(reader.content_bytes(), if kind == 0 { 100_000 } else { 0 });
        assert!(reader.section.is_none());
    }
}
