//! Streams of every type, as a whole and in pieces.

use super::*;
use crate::testing::hex;

/// Reads the stream in pieces of `size` bytes; returns it with the first error.
fn read(stream: &[u8], size: usize) -> (UniStream, Result<(), Http3Error>) {
    let mut reader = UniStream::new(16);
    let pushed = stream
        .chunks(size)
        .map(|piece| reader.push(piece))
        .collect::<Result<Vec<()>, _>>();
    let done = pushed.map(drop);
    if done.is_err() {
        assert_eq!(reader.push(&[0; 9]), done, "an error stays");
        assert_eq!(reader.finish(), done);
    }
    (reader, done)
}

#[test]
fn streams_in_pieces_of_any_size() {
    let settings = [(6, 1024), (0x21, 5)];
    for (stream, kind, settings, goaway) in [
        ("", None, None, None),
        ("40", None, None, None),
        ("00", Some(UniKind::Control), None, None),
        ("00 04 05 06 44", Some(UniKind::Control), None, None),
        ("00 04 00", Some(UniKind::Control), Some(&[][..]), None),
        (
            "00 04 05 06 4400 21 05",
            Some(UniKind::Control),
            Some(&settings[..]),
            None,
        ),
        // The stream type in a longer form; unknown frames, a PRIORITY_UPDATE, two GOAWAYs.
        (
            "4000 04 05 06 4400 21 05 4021 03 010203 07 02 4008 800f0700 01 00 07 01 08 07 01 00",
            Some(UniKind::Control),
            Some(&settings[..]),
            Some(0),
        ),
        // The largest allowed SETTINGS frame; two GOAWAYs with the same stream ID, one in its longest form.
        (
            "00 04 10 c000000000000006 c000000000000001 0708c000000000000004 070104",
            Some(UniKind::Control),
            Some(&[(6, 1)][..]),
            Some(4),
        ),
        ("02", Some(UniKind::QpackEncoder), None, None),
        ("02 20 20", Some(UniKind::QpackEncoder), None, None),
        ("03 00 80 ff", Some(UniKind::QpackDecoder), None, None),
        ("21 04 01", Some(UniKind::Other(0x21)), None, None),
        (
            "c0000000ffffffff 01 02",
            Some(UniKind::Other(0xffff_ffff)),
            None,
            None,
        ),
    ] {
        let bytes = hex(stream);
        for size in 1..=bytes.len().max(1) {
            let (reader, done) = read(&bytes, size);
            assert_eq!(done, Ok(()), "{stream}");
            assert_eq!(reader.kind(), kind, "{stream}");
            assert_eq!(reader.settings(), settings, "{stream}");
            assert_eq!(reader.goaway(), goaway, "{stream}");
        }
    }
}

#[test]
fn what_breaks_a_rule() {
    let first = "control stream without SETTINGS first";
    let of_request = "frame of a request stream on the control stream";
    let insertion = "insertion into a dynamic table without capacity";
    for (stream, code, cause) in [
        ("01", code::ID_ERROR, "push stream that was not allowed"),
        ("00 00 00", code::MISSING_SETTINGS, first),
        ("00 21 00", code::MISSING_SETTINGS, first),
        ("00 07 01 00", code::MISSING_SETTINGS, first),
        ("00 0400 0400", code::FRAME_UNEXPECTED, "SETTINGS twice"),
        (
            "00 0411 00",
            code::EXCESSIVE_LOAD,
            "SETTINGS frame above the limit",
        ),
        (
            "00 0402 0200",
            code::SETTINGS_ERROR,
            "setting of HTTP/2 in SETTINGS",
        ),
        ("00 0401 06", code::FRAME_ERROR, "SETTINGS frame is cut"),
        ("00 0400 0000", code::FRAME_UNEXPECTED, of_request),
        ("00 0400 0100", code::FRAME_UNEXPECTED, of_request),
        ("00 0400 0500", code::FRAME_UNEXPECTED, of_request),
        (
            "00 0400 0d0100",
            code::FRAME_UNEXPECTED,
            "MAX_PUSH_ID from a server",
        ),
        (
            "00 0400 030100",
            code::ID_ERROR,
            "push cancelled that was not allowed",
        ),
        ("00 0400 0200", code::FRAME_UNEXPECTED, "frame of HTTP/2"),
        ("00 0400 0900", code::FRAME_UNEXPECTED, "frame of HTTP/2"),
        ("00 0400 0700", code::FRAME_ERROR, "length of a GOAWAY"),
        ("00 0400 070140", code::FRAME_ERROR, "length of a GOAWAY"),
        ("00 0400 07020000", code::FRAME_ERROR, "length of a GOAWAY"),
        ("00 0400 0709", code::FRAME_ERROR, "length of a GOAWAY"),
        ("00 0400 070101", code::ID_ERROR, "stream ID of a GOAWAY"),
        (
            "00 0400 070104 070108",
            code::ID_ERROR,
            "stream ID of a GOAWAY grows",
        ),
        (
            "02 20 3f00",
            code::QPACK_ENCODER_STREAM_ERROR,
            "dynamic table above the capacity allowed",
        ),
        (
            "02 21",
            code::QPACK_ENCODER_STREAM_ERROR,
            "dynamic table above the capacity allowed",
        ),
        ("02 c1", code::QPACK_ENCODER_STREAM_ERROR, insertion),
        ("02 41", code::QPACK_ENCODER_STREAM_ERROR, insertion),
        ("02 61", code::QPACK_ENCODER_STREAM_ERROR, insertion),
        ("02 a1", code::QPACK_ENCODER_STREAM_ERROR, insertion),
        ("02 20 00", code::QPACK_ENCODER_STREAM_ERROR, insertion),
    ] {
        let bytes = hex(stream);
        for size in 1..=bytes.len() {
            let error = Http3Error { code, cause };
            assert_eq!(read(&bytes, size).1, Err(error), "{stream}");
        }
    }
}

#[test]
fn streams_that_may_not_end() {
    let closed = Http3Error::new(code::CLOSED_CRITICAL_STREAM, "critical stream closed");
    for (stream, end) in [
        ("", Ok(())),
        ("40", Ok(())),
        ("21 00", Ok(())),
        ("00", Err(closed)),
        ("00 0400", Err(closed)),
        ("02", Err(closed)),
        ("03", Err(closed)),
    ] {
        let (mut reader, _) = read(&hex(stream), 9);
        assert_eq!(reader.finish(), end, "{stream}");
    }
}

#[test]
fn lengths_allocate_nothing() {
    let mut reader = UniStream::new(usize::MAX);
    reader.push(&hex("00 04 ffffffffffffffff 06 00")).unwrap();
    assert!(reader.frame.as_ref().unwrap().1.capacity() < 100);
    let mut reader = UniStream::new(16);
    reader.push(&hex("00 0400 21 ffffffffffffffff")).unwrap();
    for _ in 0..100 {
        reader.push(&[1; 1000]).unwrap();
    }
    assert!(reader.frame.is_none());
}
