//! All fields in a packet's frames, in order, as a JSON list of objects. The description in words omits some.
//!
//! Each object has `type`, the frame type as on the wire, and the fields of RFC 9000 19 (RFC 9221,
//! draft-ietf-quic-ack-frequency) with their names in lower case. An error code that represents a TLS alert adds
//! `tls_alert`. Byte strings are hex digits; CRYPTO, STREAM and DATAGRAM frames give the length of their data.

use firstflight_records::Style;
use firstflight_wire::{Ack, Frame, Frames, Reader};

use super::object::{Objects, Quoted};

/// Error codes that represent a TLS alert in their last byte (RFC 9000 20.1).
const CRYPTO_ERRORS: std::ops::RangeInclusive<u64> = 0x0100..=0x01ff;

/// The fields in a packet's frames as text, already in the style of the output, so that the quotes need no later
/// escape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameDetails {
    pub text: String,
    pub style: Style,
}

impl FrameDetails {
    /// The frames in a decrypted packet's `payload`; `None` if they do not all parse.
    pub fn of(payload: &[u8], style: Style) -> Option<FrameDetails> {
        let text = match style {
            Style::Plain => text::<false>(payload),
            Style::Json => text::<true>(payload),
        };
        text.map(|text| FrameDetails { text, style })
    }
}

fn text<const INSIDE: bool>(payload: &[u8]) -> Option<String> {
    let mut frames = Frames::new(payload);
    let mut list = Objects::<INSIDE>::new();
    loop {
        let kind = Reader::new(frames.rest()).varint().unwrap_or_default();
        let Some(frame) = frames.next() else { break };
        list.begin();
        fields(&frame.ok()?, &mut list);
        list.number("type", kind);
        list.end();
    }
    Some(list.finish())
}

/// Adds a frame's fields in alphabetical order; the caller adds `type` last.
fn fields<const INSIDE: bool>(frame: &Frame<'_>, to: &mut Objects<INSIDE>) {
    match frame {
        Frame::Padding { length } => to.number("length", *length as u64),
        Frame::Ack(ack) => ack_fields(ack, to),
        Frame::ResetStream {
            id,
            code,
            final_size,
        } => {
            to.number("error_code", *code);
            to.number("final_size", *final_size);
            to.number("stream_id", *id);
        }
        Frame::StopSending { id, code } => {
            to.number("error_code", *code);
            to.number("stream_id", *id);
        }
        Frame::Crypto { offset, data } => {
            to.number("length", data.len() as u64);
            to.number("offset", *offset);
        }
        Frame::NewToken { token } => {
            to.number("length", token.len() as u64);
            to.text("token", Quoted::Hex(token));
        }
        Frame::Stream {
            id,
            offset,
            fin,
            data,
        } => {
            to.flag("fin", *fin);
            to.number("length", data.len() as u64);
            to.number("offset", *offset);
            to.number("stream_id", *id);
        }
        Frame::MaxData(max) | Frame::DataBlocked(max) => to.number("maximum_data", *max),
        Frame::MaxStreamData { id, max } | Frame::StreamDataBlocked { id, limit: max } => {
            to.number("maximum_stream_data", *max);
            to.number("stream_id", *id);
        }
        Frame::MaxStreams { max, .. } | Frame::StreamsBlocked { limit: max, .. } => {
            to.number("maximum_streams", *max);
        }
        Frame::NewConnectionId {
            sequence,
            retire_prior_to,
            cid,
            reset_token,
        } => {
            to.text("connection_id", Quoted::Hex(cid.as_slice()));
            to.number("retire_prior_to", *retire_prior_to);
            to.number("sequence_number", *sequence);
            to.text("stateless_reset_token", Quoted::Hex(&reset_token[..]));
        }
        Frame::RetireConnectionId { sequence } => to.number("sequence_number", *sequence),
        Frame::PathChallenge(data) | Frame::PathResponse(data) => {
            to.text("data", Quoted::Hex(&data[..]));
        }
        Frame::ConnectionClose {
            code,
            frame_type,
            reason,
        } => {
            to.number("error_code", *code);
            to.number("frame_type", *frame_type);
            to.text("reason_phrase", Quoted::Words(reason));
            if CRYPTO_ERRORS.contains(code) {
                to.number("tls_alert", *code & 0xff);
            }
        }
        Frame::ApplicationClose { code, reason } => {
            to.number("error_code", *code);
            to.text("reason_phrase", Quoted::Words(reason));
        }
        Frame::AckFrequency {
            sequence,
            ack_eliciting_threshold,
            max_ack_delay_us,
            reordering_threshold,
        } => {
            to.number("ack_eliciting_threshold", *ack_eliciting_threshold);
            to.number("reordering_threshold", *reordering_threshold);
            to.number("request_max_ack_delay", *max_ack_delay_us);
            to.number("sequence_number", *sequence);
        }
        Frame::Datagram { data } => to.number("length", data.len() as u64),
        Frame::ResetStreamAt {
            id,
            code,
            final_size,
            reliable_size,
        } => {
            to.number("error_code", *code);
            to.number("final_size", *final_size);
            to.number("reliable_size", *reliable_size);
            to.number("stream_id", *id);
        }
        Frame::TimeStamp(stamp) => to.number("timestamp", *stamp),
        _ => {}
    }
}

fn ack_fields<const INSIDE: bool>(ack: &Ack<'_>, to: &mut Objects<INSIDE>) {
    let further = || ack.ranges().skip(1);
    to.number("ack_delay", ack.delay);
    to.numbers(
        "ack_range",
        further().map(|range| range.end() - range.start()),
    );
    to.number("ack_range_count", ack.range_count);
    if let Some([ect0, ect1, ce]) = ack.ecn {
        to.number("ecn_ce_count", ce);
        to.number("ect0_count", ect0);
        to.number("ect1_count", ect1);
    }
    to.number("first_ack_range", ack.first_range);
    // Ranges are checked when the frame is parsed: each is at least two below the one before.
    let gaps = ack
        .ranges()
        .zip(further())
        .map(|(before, range)| before.start().saturating_sub(range.end() + 2));
    to.numbers("gap", gaps);
    to.number("largest_acknowledged", ack.largest);
}

#[cfg(test)]
mod tests {
    use firstflight_records::Style;
    use serde_json::Value;

    use super::FrameDetails;

    /// The text of the frames of `payload`. Checks that the text inside a JSON string is the same.
    fn details(payload: &[u8]) -> Option<String> {
        let [plain, inside] = [Style::Plain, Style::Json].map(|style| {
            FrameDetails::of(payload, style).map(|details| {
                assert_eq!(details.style, style);
                details.text
            })
        });
        let back = inside.map(|text| serde_json::from_str(&format!("\"{text}\"")).unwrap());
        assert_eq!(plain, back);
        plain
    }

    /// A frame of each type on the wire, its fields, and their number.
    const FRAMES: &[(&[u8], &str)] = &[
        (&[0, 0, 0], r#"{"length":3,"type":0}"#),
        (&[1], r#"{"type":1}"#),
        (
            &[3, 9, 3, 1, 1, 2, 4, 7, 8, 6],
            concat!(
                r#"{"ack_delay":3,"ack_range":[4],"ack_range_count":1,"ecn_ce_count":6,"ect0_count":7,"#,
                r#""ect1_count":8,"first_ack_range":1,"gap":[2],"largest_acknowledged":9,"type":3}"#
            ),
        ),
        (
            &[4, 1, 2, 3],
            r#"{"error_code":2,"final_size":3,"stream_id":1,"type":4}"#,
        ),
        (&[5, 1, 2], r#"{"error_code":2,"stream_id":1,"type":5}"#),
        (
            &[6, 5, 2, 0xaa, 0xbb],
            r#"{"length":2,"offset":5,"type":6}"#,
        ),
        (
            &[7, 2, 0xaa, 0xb],
            r#"{"length":2,"token":"aa0b","type":7}"#,
        ),
        (&[0x10, 1], r#"{"maximum_data":1,"type":16}"#),
        (
            &[0x11, 1, 2],
            r#"{"maximum_stream_data":2,"stream_id":1,"type":17}"#,
        ),
        (&[0x12, 1], r#"{"maximum_streams":1,"type":18}"#),
        (&[0x14, 1], r#"{"maximum_data":1,"type":20}"#),
        (
            &[0x15, 1, 2],
            r#"{"maximum_stream_data":2,"stream_id":1,"type":21}"#,
        ),
        (&[0x17, 1], r#"{"maximum_streams":1,"type":23}"#),
        (
            &[
                0x18, 3, 2, 1, 0xcd, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
            ],
            concat!(
                r#"{"connection_id":"cd","retire_prior_to":2,"sequence_number":3,"#,
                r#""stateless_reset_token":"01010101010101010101010101010101","type":24}"#
            ),
        ),
        (&[0x19, 1], r#"{"sequence_number":1,"type":25}"#),
        (
            &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
            r#"{"data":"0102030405060708","type":26}"#,
        ),
        (
            &[0x1c, 0x41, 0x28, 6, 3, b'a', b'"', 0xff],
            concat!(
                r#"{"error_code":296,"frame_type":6,"reason_phrase":"a\"\ufffd","#,
                r#""tls_alert":40,"type":28}"#
            ),
        ),
        (
            &[0x1c, 0x42, 0, 6, 0],
            r#"{"error_code":512,"frame_type":6,"reason_phrase":"","type":28}"#,
        ),
        (
            &[0x1d, 1, 1, b'x'],
            r#"{"error_code":1,"reason_phrase":"x","type":29}"#,
        ),
        (&[0x1e], r#"{"type":30}"#),
        (&[0x31, 1, 9], r#"{"length":1,"type":49}"#),
    ];

    #[test]
    fn each_type_has_its_fields_by_name() {
        for (payload, expected) in FRAMES {
            let expected = expected.replace("\\ufffd", "\u{fffd}");
            let found = details(payload);
            assert_eq!(found.as_deref(), Some(format!("[{expected}]").as_str()));
            // Names in alphabetical order, as in files of earlier versions.
            let value: Value = serde_json::from_str(&found.unwrap()).unwrap();
            assert_eq!(value.to_string(), format!("[{expected}]"));
        }
    }

    #[test]
    fn fields_in_order() {
        let expected = concat!(
            r#"[{"ack_delay":3,"ack_range":[4],"ack_range_count":1,"first_ack_range":1,"gap":[2],"#,
            r#""largest_acknowledged":9,"type":2},"#,
            r#"{"fin":true,"length":1,"offset":7,"stream_id":4,"type":15}]"#
        );
        let payload = [2, 9, 3, 1, 1, 2, 4, 0x0f, 4, 7, 1, 0xaa];
        assert_eq!(details(&payload).as_deref(), Some(expected));
        assert_eq!(details(&[0, 0x21]), None);
        assert_eq!(details(&[]).as_deref(), Some("[]"));
    }
}
