//! The frames of a packet in words.

use std::fmt::Write;

use firstflight_wire::Frame;

/// Frames in words, in order, joined by "; ".
pub fn summary(frames: &[Frame<'_>]) -> String {
    let mut text = String::new();
    for frame in frames {
        if !text.is_empty() {
            text.push_str("; ");
        }
        // Writing into a String cannot fail.
        let _ = match frame {
            Frame::Padding { length } => write!(text, "padding {length}"),
            Frame::Ack(ack) => {
                let ranges: Vec<String> = ack
                    .ranges()
                    .map(|r| {
                        if r.start() == r.end() {
                            r.start().to_string()
                        } else {
                            format!("{}-{}", r.start(), r.end())
                        }
                    })
                    .collect();
                write!(text, "ack {} delay {}", ranges.join(","), ack.delay)
            }
            Frame::Crypto { offset, data } => write!(text, "crypto {offset}+{}", data.len()),
            Frame::Stream {
                id,
                offset,
                fin,
                data,
            } => {
                write!(
                    text,
                    "stream {id} {offset}+{}{}",
                    data.len(),
                    if *fin { " fin" } else { "" }
                )
            }
            Frame::ConnectionClose { code, reason, .. } => {
                write!(
                    text,
                    "connection_close {code:#x} {:?}",
                    String::from_utf8_lossy(reason)
                )
            }
            Frame::ApplicationClose { code, reason } => {
                write!(
                    text,
                    "application_close {code:#x} {:?}",
                    String::from_utf8_lossy(reason)
                )
            }
            other => write!(text, "{}", other.name()),
        };
    }
    text
}
