//! Rows of `tcp_packet`: one per TCP segment, with its options in order and what is to be said of it.

use std::fmt::Write;

use firstflight_wire::tcp::{Flags, Header, TcpOption};

use super::Type::{Bool, I64, String as Text, U8, U16, U32};
use super::{Column, Value, always, maybe};
use crate::net::ip::Segment;
use crate::tcp::analysis::{Class, Verdict};
use crate::tcp::{Flow, analysis::Marks};

/// Columns in the order of [`row`].
pub const COLUMNS: &[Column] = &[
    always("source_file", Text),
    always("frame_number", I64),
    always("time_ns", I64),
    always("since_start_us", I64),
    always("from_client", Bool),
    always("src_ip", Text),
    always("src_port", U16),
    always("dst_ip", Text),
    always("dst_port", U16),
    always("seq", U32),
    always("ack", U32),
    always("flags", Text),
    always("window", U16),
    maybe("window_shift", U8),
    always("checksum", U16),
    always("urgent", U16),
    always("header_bytes", U8),
    always("payload_bytes", U32),
    always("ip_bytes", U32),
    always("ttl", U8),
    always("ecn", U8),
    always("options", Text),
    maybe("class", Text),
    always("marks", Text),
];

/// The row of `segment`, which belongs to `flow`.
pub fn row<'a>(
    source_file: &'a str,
    (frame_number, ns): (u64, i64),
    flow: &Flow,
    segment: &Segment<'_>,
    verdict: &Verdict,
) -> Vec<Value<'a>> {
    let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let header = &segment.header;
    let from_client = flow.is_from_client(segment);
    let is_scaled = !header.flags.any(Flags::SYN);
    vec![
        source_file.into(),
        frame_number.into(),
        ns.into(),
        (ns - flow.volume.start_ns).div_euclid(1000).into(),
        from_client.into(),
        segment.src.ip().into(),
        segment.src.port().into(),
        segment.dst.ip().into(),
        segment.dst.port().into(),
        header.seq.into(),
        header.ack.into(),
        flags(header.flags).into(),
        header.window.into(),
        flow.shift(from_client).filter(|_| is_scaled).into(),
        header.checksum.into(),
        header.urgent.into(),
        // The data offset has four bits: at most 60.
        (header.length as u8).into(),
        size(segment.length).into(),
        size(segment.ip_length.bytes).into(),
        segment.ttl.into(),
        segment.ecn.into(),
        options(header).into(),
        verdict.class.map(class).into(),
        marks(&verdict.marks).into(),
    ]
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Retransmission => "retransmission",
        Class::Fast => "fast_retransmission",
        Class::Spurious => "spurious_retransmission",
        Class::OutOfOrder => "out_of_order",
    }
}

fn marks(marks: &Marks) -> String {
    let names = [
        (marks.lost_segment, "lost_segment"),
        (marks.ack_lost_segment, "ack_lost_segment"),
        (marks.keep_alive, "keep_alive"),
        (marks.keep_alive_ack, "keep_alive_ack"),
        (marks.duplicate_ack, "duplicate_ack"),
        (marks.zero_window, "zero_window"),
        (marks.zero_window_probe, "zero_window_probe"),
        (marks.zero_window_probe_ack, "zero_window_probe_ack"),
    ];
    let set: Vec<&str> = names
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, n)| *n)
        .collect();
    set.join(",")
}

/// Names of the bits that are set, highest first.
fn flags(flags: Flags) -> String {
    let names = [
        (Flags::CWR, "cwr"),
        (Flags::ECE, "ece"),
        (Flags::URG, "urg"),
        (Flags::ACK, "ack"),
        (Flags::PSH, "psh"),
        (Flags::RST, "rst"),
        (Flags::SYN, "syn"),
        (Flags::FIN, "fin"),
    ];
    let set: Vec<&str> = names
        .iter()
        .filter(|(bit, _)| flags.any(*bit))
        .map(|(_, n)| *n)
        .collect();
    set.join(",")
}

/// Options in words, in order, joined by "; ".
fn options(header: &Header<'_>) -> String {
    let mut text = String::new();
    for option in header.options() {
        if !text.is_empty() {
            text.push_str("; ");
        }
        // Writing into a String cannot fail.
        let _ = match option {
            Ok(TcpOption::End) => write!(text, "end"),
            Ok(TcpOption::NoOperation) => write!(text, "nop"),
            Ok(TcpOption::MaximumSegmentSize(mss)) => write!(text, "mss {mss}"),
            Ok(TcpOption::WindowScale(shift)) => write!(text, "wscale {shift}"),
            Ok(TcpOption::SackPermitted) => write!(text, "sack_permitted"),
            Ok(TcpOption::Sack(blocks)) => {
                let blocks: Vec<String> = blocks
                    .iter()
                    .map(|(from, to)| format!("{from}-{to}"))
                    .collect();
                write!(text, "sack {}", blocks.join(","))
            }
            Ok(TcpOption::Timestamps { value, echo }) => write!(text, "timestamps {value} {echo}"),
            Ok(TcpOption::Other { kind, data }) => {
                let hex: String = data.iter().map(|b| format!("{b:02x}")).collect();
                write!(text, "kind {kind} {hex}")
            }
            Err(error) => write!(text, "{error}"),
        };
    }
    text
}
