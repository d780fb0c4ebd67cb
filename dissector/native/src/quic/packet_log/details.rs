//! All fields of a packet's frames, in order, as a JSON list of objects: what a record of it leaves out in
//! words.
//!
//! Each object has `type`, the frame type as on the wire, and the fields of RFC 9000 19 (RFC 9221,
//! draft-ietf-quic-ack-frequency) by their names in lower case; `tls_alert` beside an error code that stands
//! for one. Byte strings are hex digits; CRYPTO, STREAM and DATAGRAM frames give the length of their data.

use firstflight_wire::{Ack, Frame, Frames, Reader};
use serde_json::{Value, json};

/// Error codes that stand for a TLS alert, which is their last byte (RFC 9000 20.1).
const CRYPTO_ERRORS: std::ops::RangeInclusive<u64> = 0x0100..=0x01ff;

/// The frames of an opened packet's `payload`; `None` if they do not all parse.
pub fn details(payload: &[u8]) -> Option<String> {
    let mut frames = Frames::new(payload);
    let mut list = Vec::new();
    loop {
        let kind = Reader::new(frames.rest()).varint().unwrap_or_default();
        let Some(frame) = frames.next() else { break };
        let mut fields = fields(&frame.ok()?);
        fields["type"] = kind.into();
        list.push(fields);
    }
    Some(Value::Array(list).to_string())
}

fn fields(frame: &Frame<'_>) -> Value {
    match frame {
        Frame::Padding { length } => json!({ "length": length }),
        Frame::Ack(ack) => ack_fields(ack),
        Frame::ResetStream {
            id,
            code,
            final_size,
        } => json!({ "stream_id": id, "error_code": code, "final_size": final_size }),
        Frame::StopSending { id, code } => json!({ "stream_id": id, "error_code": code }),
        Frame::Crypto { offset, data } => json!({ "offset": offset, "length": data.len() }),
        Frame::NewToken { token } => {
            json!({ "length": token.len(), "token": const_hex::encode(token) })
        }
        Frame::Stream {
            id,
            offset,
            fin,
            data,
        } => json!({ "stream_id": id, "offset": offset, "length": data.len(), "fin": fin }),
        Frame::MaxData(max) => json!({ "maximum_data": max }),
        Frame::MaxStreamData { id, max } => json!({ "stream_id": id, "maximum_stream_data": max }),
        Frame::MaxStreams { max, .. } => json!({ "maximum_streams": max }),
        Frame::DataBlocked(limit) => json!({ "maximum_data": limit }),
        Frame::StreamDataBlocked { id, limit } => {
            json!({ "stream_id": id, "maximum_stream_data": limit })
        }
        Frame::StreamsBlocked { limit, .. } => json!({ "maximum_streams": limit }),
        Frame::NewConnectionId {
            sequence,
            retire_prior_to,
            cid,
            reset_token,
        } => json!({
            "sequence_number": sequence,
            "retire_prior_to": retire_prior_to,
            "connection_id": cid.to_string(),
            "stateless_reset_token": const_hex::encode(reset_token),
        }),
        Frame::RetireConnectionId { sequence } => json!({ "sequence_number": sequence }),
        Frame::PathChallenge(data) | Frame::PathResponse(data) => {
            json!({ "data": const_hex::encode(data) })
        }
        Frame::ConnectionClose {
            code,
            frame_type,
            reason,
        } => {
            let mut fields = json!({
                "error_code": code,
                "frame_type": frame_type,
                "reason_phrase": text(reason),
            });
            if CRYPTO_ERRORS.contains(code) {
                fields["tls_alert"] = (code & 0xff).into();
            }
            fields
        }
        Frame::ApplicationClose { code, reason } => {
            json!({ "error_code": code, "reason_phrase": text(reason) })
        }
        Frame::AckFrequency {
            sequence,
            ack_eliciting_threshold,
            max_ack_delay_us,
            reordering_threshold,
        } => json!({
            "sequence_number": sequence,
            "ack_eliciting_threshold": ack_eliciting_threshold,
            "request_max_ack_delay": max_ack_delay_us,
            "reordering_threshold": reordering_threshold,
        }),
        Frame::Datagram { data } => json!({ "length": data.len() }),
        _ => json!({}),
    }
}

fn ack_fields(ack: &Ack<'_>) -> Value {
    let (mut gaps, mut lengths) = (Vec::new(), Vec::new());
    let mut ranges = ack.ranges();
    let mut before = ranges.next();
    for range in ranges {
        // Ranges are checked when the frame is parsed: each lies at least two below the one before.
        if let Some(before) = before {
            gaps.push(before.start().saturating_sub(range.end() + 2));
        }
        lengths.push(range.end() - range.start());
        before = Some(range);
    }
    let mut fields = json!({
        "largest_acknowledged": ack.largest,
        "ack_delay": ack.delay,
        "ack_range_count": ack.range_count,
        "first_ack_range": ack.first_range,
        "gap": gaps,
        "ack_range": lengths,
    });
    if let Some([ect0, ect1, ce]) = ack.ecn {
        fields["ect0_count"] = ect0.into();
        fields["ect1_count"] = ect1.into();
        fields["ecn_ce_count"] = ce.into();
    }
    fields
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::details;

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
