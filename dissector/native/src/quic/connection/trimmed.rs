//! Trimmed datagrams: the bytes that a trimmed capture keeps, and their processing. A trimmed capture omits bytes that
//! no known key decrypts.
//!
//! Only a datagram's last packet is cut, after its header, and only if it is a Handshake, 0-RTT or 1-RTT packet of
//! a connection without secrets in the key logs. A row contains only the packet's header fields and the fact that it
//! fills the datagram. So a record that is cut at this position lacks no information. A record that is cut anywhere
//! else was cut by the capture.

use firstflight_wire::{Packet, PacketType, parse_bare_header, parse_packet};

use super::Connection;
use super::datagram::{Place, is_zeros};
use crate::quic::packet_log::{LoggedHeader, PacketLog, logged, note};

impl Connection {
    /// Number of bytes of `datagram` that a trimmed capture keeps. Call it after the connection has processed the
    /// datagram. `length` is its length on the wire. Returns the length of `datagram` if it is already trimmed, and
    /// `None` if it must not be trimmed.
    pub fn kept(&self, from_client: bool, datagram: &[u8], length: usize) -> Option<usize> {
        if !self.protection.has_nothing_to_open() {
            return None;
        }
        let is_known = |start| {
            let rest = datagram.get(start + 1..)?;
            self.cids_to(from_client).of_short(rest)
        };
        let mut start = 0;
        loop {
            let cid_length = self.short_cid_length(from_client, datagram.get(start..)?);
            if length > datagram.len() {
                let bare = parse_bare_header(datagram, start, cid_length, length);
                if bare.is_some() {
                    return Some(datagram.len());
                }
            }
            let packet = parse_packet(datagram, start, cid_length).ok()?;
            if packet.end < datagram.len() {
                start = packet.end;
                if is_zeros(&datagram[start..]) {
                    return None;
                }
                continue;
            }
            // Without a connection ID of the receiver, the packet may be of any kind.
            if packet.kind == PacketType::OneRtt && is_known(start).is_none() {
                return None;
            }
            let kept = datagram.get(..packet.pn_offset)?;
            let same = parse_bare_header(kept, start, cid_length, length);
            return (same.as_ref() == Some(&packet)).then_some(kept.len());
        }
    }

    /// Parses the packet at `start` if it is the last one in a trimmed datagram and no key decrypts it.
    pub(super) fn bare_packet(
        &mut self,
        place: Place<'_>,
        sealed: &[u8],
        start: usize,
    ) -> Option<Packet> {
        let cid_length = self.short_cid_length(place.from_client, &sealed[start..]);
        let packet = parse_bare_header(sealed, start, cid_length, place.length())?;
        self.protection
            .ask(place.keyring, self.hello.random.as_ref());
        self.protection.has_nothing_to_open().then_some(packet)
    }

    /// Processes a packet that no key decrypts. The capture holds only the header.
    pub(super) fn sealed_packet(
        &mut self,
        packet: &Packet,
        place: Place<'_>,
        sealed: &[u8],
        log: &mut PacketLog<'_>,
    ) {
        let goes_on = packet.kind == PacketType::Handshake && self.handshake_packet(packet, place);
        self.not_opened(place, goes_on);
        note(log, |style| {
            logged(style, packet, LoggedHeader::of(packet, sealed), None, None)
        });
    }

    /// Counts a packet that no key decrypts. `goes_on`: it continues the handshake and is no sign of a broken server.
    pub(super) fn not_opened(&mut self, place: Place<'_>, goes_on: bool) {
        if goes_on {
            self.undecrypted_packets = self.undecrypted_packets.saturating_add(1);
        } else {
            self.undecrypted(place.at, place.from_client, "packet that no key opens");
        }
    }
}

#[cfg(test)]
mod tests;
