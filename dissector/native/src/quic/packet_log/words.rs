//! A packet's frames in words.

use std::fmt::Write;

use firstflight_wire::Frame;

/// Most packets' words fit.
const ROOM: usize = 64;

/// Frames in words, in order, joined by "; ".
pub fn summary(frames: &[Frame<'_>]) -> String {
    let mut text = String::with_capacity(ROOM);
    for frame in frames {
        if !text.is_empty() {
            text.push_str("; ");
        }
        match frame {
            Frame::Padding { length } => put(&mut text, "padding ", *length as u64),
            Frame::Ack(ack) => {
                text.push_str("ack ");
                for (i, range) in ack.ranges().enumerate() {
                    put(&mut text, if i > 0 { "," } else { "" }, *range.start());
                    if range.start() != range.end() {
                        put(&mut text, "-", *range.end());
                    }
                }
                put(&mut text, " delay ", ack.delay);
            }
            Frame::Crypto { offset, data } => {
                put(&mut text, "crypto ", *offset);
                put(&mut text, "+", data.len() as u64);
            }
            Frame::Stream {
                id,
                offset,
                fin,
                data,
            } => {
                put(&mut text, "stream ", *id);
                put(&mut text, " ", *offset);
                put(&mut text, "+", data.len() as u64);
                text.push_str(if *fin { " fin" } else { "" });
            }
            Frame::ConnectionClose { code, reason, .. } => {
                close(&mut text, "connection_close", *code, reason);
            }
            Frame::ApplicationClose { code, reason } => {
                close(&mut text, "application_close", *code, reason);
            }
            other => text.push_str(other.name()),
        }
    }
    text
}

fn put(text: &mut String, before: &str, number: u64) {
    text.push_str(before);
    text.push_str(itoa::Buffer::new().format(number));
}

fn close(text: &mut String, kind: &str, code: u64, reason: &[u8]) {
    let reason = String::from_utf8_lossy(reason);
    // Writing into a String cannot fail.
    let _ = write!(text, "{kind} {code:#x} {reason:?}");
}
