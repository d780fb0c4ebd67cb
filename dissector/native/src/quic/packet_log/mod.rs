//! A log of each packet, for `quic_packet`.

mod details;
mod object;
mod words;

pub use details::FrameDetails;
pub use words::summary;

use firstflight_records::Style;
use firstflight_wire::{ConnectionId, Error, Opened, Packet, PacketType, TAG_LEN, Version};

/// A packet in the log.
#[derive(Clone, Debug)]
pub struct LoggedPacket {
    pub kind: &'static str,
    pub version: Option<Version>,
    pub dcid: Option<ConnectionId>,
    pub scid: Option<ConnectionId>,
    pub packet_number: Option<u64>,
    /// The frames in words, or the reason if the packet is not decrypted.
    pub frames: Option<String>,
    pub opened: bool,
    pub size: usize,
    pub header: LoggedHeader,
    pub frame_details: Option<FrameDetails>,
}

/// Header fields other than type and connection IDs.
#[derive(Clone, Debug, Default)]
pub struct LoggedHeader {
    /// Without header protection if the packet was decrypted, else as on the wire.
    pub first_byte: Option<u8>,
    pub packet_number_length: Option<u8>,
    /// Length field: packet number and protected payload.
    pub length: Option<u64>,
    /// Token of an Initial or a Retry.
    pub token: Option<String>,
    pub integrity_tag: Option<String>,
    /// Versions in a Version Negotiation packet.
    pub version_list: Option<String>,
}

impl LoggedHeader {
    /// Reads the header of `packet` in `datagram`.
    pub fn of(packet: &Packet, datagram: &[u8]) -> LoggedHeader {
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
        LoggedHeader {
            first_byte: Some(packet.first_byte),
            packet_number_length: None,
            length: has_length.then(|| packet.end.saturating_sub(packet.pn_offset) as u64),
            token: has_token.then(|| const_hex::encode(packet.token(datagram))),
            integrity_tag: tag
                .filter(|_| kind == PacketType::Retry)
                .map(const_hex::encode),
            version_list: versions.map(|list| list.join(",")),
        }
    }
}

/// Packets in a datagram.
#[derive(Debug)]
pub struct Log {
    pub packets: Vec<LoggedPacket>,
    /// The style of their rows.
    style: Style,
}

impl Log {
    pub fn new(style: Style) -> Log {
        Log {
            packets: Vec::new(),
            style,
        }
    }
}

/// Where packets are logged, if they are.
pub type PacketLog<'a> = Option<&'a mut Log>;

pub(crate) fn note(log: &mut PacketLog<'_>, packet: impl FnOnce(Style) -> LoggedPacket) {
    if let Some(log) = log {
        log.packets.push(packet(log.style));
    }
}

/// Describes a packet for a log of rows in this style. `frames` lists the frames or the reason why they are unknown.
pub(crate) fn logged(
    style: Style,
    packet: &Packet,
    header: LoggedHeader,
    opened: Option<&Opened<'_>>,
    frames: Option<String>,
) -> LoggedPacket {
    let long = packet.kind != PacketType::OneRtt;
    let header = match opened {
        Some(opened) => LoggedHeader {
            first_byte: Some(opened.first_byte),
            packet_number_length: u8::try_from(opened.pn_len).ok(),
            ..header
        },
        None => header,
    };
    LoggedPacket {
        kind: packet.kind.name(),
        version: long.then_some(packet.version),
        dcid: Some(packet.dcid),
        scid: long.then_some(packet.scid),
        packet_number: opened.map(|opened| opened.packet_number),
        frames,
        opened: opened.is_some(),
        size: packet.size(),
        header,
        frame_details: opened.and_then(|opened| FrameDetails::of(opened.payload, style)),
    }
}

/// Bytes without a readable header.
pub(crate) fn unparsed(size: usize, error: Error) -> LoggedPacket {
    LoggedPacket {
        kind: "unparsed",
        version: None,
        dcid: None,
        scid: None,
        packet_number: None,
        frames: Some(error.to_string()),
        opened: false,
        size,
        header: LoggedHeader::default(),
        frame_details: None,
    }
}
