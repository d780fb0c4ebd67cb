//! Rows of `tcp_packet`: one for each TCP segment, with its options in order, its class and its marks.

use std::fmt::Write;

use firstflight_records::columns;
use firstflight_wire::tcp::{Flags, Header, TcpOption};

use crate::net::ip::Segment;
use crate::output::cells::Ip;
use crate::tcp::analysis::{Class, Verdict};
use crate::tcp::{Flow, analysis::Marks};

columns! {
    /// A segment.
    pub struct TcpPacketRow<'a> {
        source_file: &'a str,
        frame_number: u64,
        time_ns: i64,
        since_start_us: i64,
        from_client: bool,
        src_ip: Ip,
        src_port: u16,
        dst_ip: Ip,
        dst_port: u16,
        seq: u32,
        ack: u32,
        flags: String,
        window: u16,
        window_shift: Option<u8>,
        checksum: u16,
        urgent: u16,
        header_bytes: u8,
        payload_bytes: u32,
        ip_bytes: u32,
        ttl: u8,
        ecn: u8,
        options: String,
        class: Option<&'static str>,
        marks: String,
    }
}

impl<'a> TcpPacketRow<'a> {
    /// Creates the row of `segment`, which belongs to `flow`.
    pub fn new(
        source_file: &'a str,
        (frame_number, time_ns): (u64, i64),
        flow: &Flow,
        segment: &Segment<'_>,
        verdict: &Verdict,
    ) -> TcpPacketRow<'a> {
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let header = &segment.header;
        let from_client = flow.is_from_client(segment);
        let is_scaled = !header.flags.any(Flags::SYN);
        TcpPacketRow {
            source_file,
            frame_number,
            time_ns,
            since_start_us: (time_ns - flow.volume.start_ns).div_euclid(1000),
            from_client,
            src_ip: Ip(segment.src.ip()),
            src_port: segment.src.port(),
            dst_ip: Ip(segment.dst.ip()),
            dst_port: segment.dst.port(),
            seq: header.seq,
            ack: header.ack,
            flags: flags(header.flags),
            window: header.window,
            window_shift: flow.shift(from_client).filter(|_| is_scaled),
            checksum: header.checksum,
            urgent: header.urgent,
            // The data offset has four bits: at most 60.
            header_bytes: header.length as u8,
            payload_bytes: size(segment.length),
            ip_bytes: size(segment.ip_length.bytes),
            ttl: segment.ttl,
            ecn: segment.ecn,
            options: options(header),
            class: verdict.class.map(class),
            marks: marks(&verdict.marks),
        }
    }
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

/// Names of the set bits, highest first.
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

#[cfg(test)]
mod tests;
