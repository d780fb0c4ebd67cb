//! What each packet looked like, for `quic_packet`, if somebody asked.

use firstflight_wire::{Error, Opened, Packet, PacketType};

use crate::output::frame_details::details;
use crate::output::quic_packet::{HeaderSeen, PacketSeen};

/// Where packets are noted, if they are.
pub type PacketLog<'a> = Option<&'a mut Vec<PacketSeen>>;

pub(super) fn note(log: &mut PacketLog<'_>, packet: impl FnOnce() -> PacketSeen) {
    if let Some(log) = log {
        log.push(packet());
    }
}

/// A packet as it is noted; `frames` says what is in it or why that is not known.
pub(super) fn seen(
    packet: &Packet,
    header: HeaderSeen,
    opened: Option<&Opened<'_>>,
    frames: Option<String>,
) -> PacketSeen {
    let long = packet.kind != PacketType::OneRtt;
    let header = match opened {
        Some(opened) => HeaderSeen {
            first_byte: Some(opened.first_byte),
            packet_number_length: u8::try_from(opened.pn_len).ok(),
            ..header
        },
        None => header,
    };
    PacketSeen {
        kind: packet.kind.name(),
        version: long.then(|| packet.version.to_string()),
        dcid: Some(packet.dcid),
        scid: long.then_some(packet.scid),
        packet_number: opened.map(|opened| opened.packet_number),
        frames,
        opened: opened.is_some(),
        size: packet.size(),
        header,
        frame_details: opened.and_then(|opened| details(opened.payload)),
    }
}

/// Bytes without a readable header.
pub(super) fn unparsed(size: usize, error: Error) -> PacketSeen {
    PacketSeen {
        kind: "unparsed",
        version: None,
        dcid: None,
        scid: None,
        packet_number: None,
        frames: Some(error.to_string()),
        opened: false,
        size,
        header: HeaderSeen::default(),
        frame_details: None,
    }
}
