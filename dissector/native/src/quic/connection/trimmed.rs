//! Datagrams without what nobody can ever open: what a trimmed capture keeps of them, and how they are taken.
//!
//! Only the last packet of a datagram is cut, behind its header, and only if it is a Handshake, 0-RTT or
//! 1-RTT packet of a connection of which the key logs hold nothing. What its header says, and that it fills
//! the datagram, is all that any row says of such a packet. So a record that ends there lacks nothing, and one
//! that ends anywhere else was cut by the capture.

use firstflight_wire::{Packet, PacketType, parse_bare_header, parse_packet};

use super::Connection;
use super::datagram::{Place, is_zeros};
use crate::quic::packet_log::{LoggedHeader, PacketLog, logged, note};

impl Connection {
    /// How many bytes of `datagram`, of which `length` were sent, a trimmed capture keeps, after the
    /// connection has taken it; all of them in one that is trimmed already. `None`: it stays as it is.
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
            // Without a connection ID that is the receiver's, it may be anything.
            if packet.kind == PacketType::OneRtt && is_known(start).is_none() {
                return None;
            }
            let kept = datagram.get(..packet.pn_offset)?;
            let same = parse_bare_header(kept, start, cid_length, length);
            return (same.as_ref() == Some(&packet)).then_some(kept.len());
        }
    }

    /// The packet at `start`, if it is the last one of a trimmed datagram, and no key opens it.
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

    /// Takes a packet that no key opens, of which the capture holds the header alone.
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

    /// Counts a packet that no key opens. `goes_on`: it continues the handshake, which is no sign of a broken
    /// server.
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
