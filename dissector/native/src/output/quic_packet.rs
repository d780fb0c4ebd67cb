//! Rows of `quic_packet`: one per QUIC packet of a connection, for looking at what a row was made of.

use std::fmt::Write;
use std::net::SocketAddr;

use firstflight_wire::{ConnectionId, Frame, Packet, PacketType, TAG_LEN};

use super::Type::{Bool, I64, String as Text, U8, U16, U32};
use super::{Column, Value, always, maybe};
use crate::connection::{Arrival, Connection};

/// Columns in the order of [`row`].
pub const COLUMNS: &[Column] = &[
    always("source_file", Text),
    always("frame_number", I64),
    always("time_ns", I64),
    always("since_start_us", I64),
    always("from_client", Bool),
    always("client_ip", Text),
    always("client_port", U16),
    always("server_ip", Text),
    always("server_port", U16),
    always("odcid", Text),
    always("client_scid", Text),
    always("type", Text),
    maybe("version", Text),
    maybe("dcid", Text),
    maybe("scid", Text),
    maybe("packet_number", I64),
    maybe("frames", Text),
    always("opened", Bool),
    always("size", U32),
    always("datagram_size", U32),
    maybe("first_byte", U8),
    maybe("packet_number_length", U8),
    maybe("length", I64),
    maybe("token", Text),
    maybe("integrity_tag", Text),
    maybe("version_list", Text),
    maybe("frame_details", Text),
    maybe("src_ip", Text),
    maybe("src_port", U16),
    maybe("dst_ip", Text),
    maybe("dst_port", U16),
];

/// A packet as it was seen.
#[derive(Clone, Debug)]
pub struct PacketSeen {
    pub kind: &'static str,
    pub version: Option<String>,
    pub dcid: Option<ConnectionId>,
    pub scid: Option<ConnectionId>,
    pub packet_number: Option<u64>,
    /// What the frames say; for a packet that is not opened, why.
    pub frames: Option<String>,
    pub opened: bool,
    pub size: usize,
    pub header: HeaderSeen,
    /// Fields of all frames as JSON; see [`super::frame_details`].
    pub frame_details: Option<String>,
}

/// What a header says beside type and connection IDs.
#[derive(Clone, Debug, Default)]
pub struct HeaderSeen {
    /// Without header protection if the packet was opened, else as on the wire.
    pub first_byte: Option<u8>,
    pub packet_number_length: Option<u8>,
    /// Length field: packet number and protected payload.
    pub length: Option<u64>,
    /// Token of an Initial or a Retry.
    pub token: Option<String>,
    pub integrity_tag: Option<String>,
    /// Versions of a Version Negotiation packet.
    pub version_list: Option<String>,
}

impl HeaderSeen {
    /// Reads the header of `packet` in its `datagram`.
    pub fn of(packet: &Packet, datagram: &[u8]) -> HeaderSeen {
        let kind = packet.kind;
        let has_token = matches!(kind, PacketType::Initial | PacketType::Retry);
        let has_length = matches!(
            kind,
            PacketType::Initial | PacketType::ZeroRtt | PacketType::Handshake
        );
        let tag = datagram.get(packet.end.saturating_sub(TAG_LEN)..packet.end);
        let versions: Option<Vec<String>> = packet
            .versions(datagram)
            .ok()
            .map(|list| list.map(|version| version.to_string()).collect());
        HeaderSeen {
            first_byte: Some(packet.first_byte),
            packet_number_length: None,
            length: has_length.then(|| packet.end.saturating_sub(packet.pn_offset) as u64),
            token: has_token.then(|| hex(packet.token(datagram))),
            integrity_tag: tag.filter(|_| kind == PacketType::Retry).map(hex),
            version_list: versions.map(|list| list.join(",")),
        }
    }
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// The row of `packet`, which arrived in a datagram of `connection` that went along `path` (source, destination).
pub fn row<'a>(
    source_file: &'a str,
    c: &'a Connection,
    at: &Arrival,
    from_client: bool,
    path: Option<(SocketAddr, SocketAddr)>,
    packet: PacketSeen,
) -> Vec<Value<'a>> {
    let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    vec![
        source_file.into(),
        at.frame_number.into(),
        at.ns.into(),
        (at.ns - c.timeline.start_ns).div_euclid(1000).into(),
        from_client.into(),
        c.client.ip().into(),
        c.client.port().into(),
        c.server.ip().into(),
        c.server.port().into(),
        c.odcid.into(),
        c.client_scid.into(),
        packet.kind.into(),
        packet.version.into(),
        packet.dcid.into(),
        packet.scid.into(),
        packet.packet_number.into(),
        packet.frames.into(),
        packet.opened.into(),
        size(packet.size).into(),
        size(at.length).into(),
        packet.header.first_byte.into(),
        packet.header.packet_number_length.into(),
        packet.header.length.into(),
        packet.header.token.into(),
        packet.header.integrity_tag.into(),
        packet.header.version_list.into(),
        packet.frame_details.into(),
        path.map(|(src, _)| src.ip()).into(),
        path.map(|(src, _)| src.port()).into(),
        path.map(|(_, dst)| dst.ip()).into(),
        path.map(|(_, dst)| dst.port()).into(),
    ]
}

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
