//! The packets in a connection's datagram: decryption and dispatch.

use std::borrow::Cow;

use firstflight_wire::transport::TransportParameters;
use firstflight_wire::{
    Error, Frame, Frames, Opened, Packet, PacketType, Reader, Version, parse_cut_header,
    parse_packet, retry_is_intact,
};
use smallvec::SmallVec;

use super::decrypt::space;
use super::frames::NewPacket;
use super::path::Path;
use super::scratch::Bytes;
use super::{Arrival, Connection};
use crate::flow::volume::Carried;
use crate::quic::acks::AckPacket;
use crate::quic::keylog::Keyring;
use crate::quic::packet_log::{LoggedHeader, PacketLog, logged, note, summary, unparsed};
use crate::quic::recovery::{AckDelay, PayloadSummary, Space};
use crate::quic::timeline::{At, CUT};

/// A packet's arrival and direction.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    arrival: &'a Arrival,
    pub(super) at: At,
    pub(super) from_client: bool,
    path: Path,
    pub(super) keyring: &'a Keyring,
}

impl Place<'_> {
    /// UDP payload as sent.
    pub(super) fn length(&self) -> usize {
        self.arrival.length
    }
}

impl Connection {
    /// Processes a datagram. Packets are decrypted in place.
    pub(super) fn datagram(
        &mut self,
        keyring: &Keyring,
        arrival: &Arrival,
        (from_client, path): (bool, Path),
        first: Option<&Packet>,
        datagram: &mut Bytes<'_>,
        mut log: PacketLog<'_>,
    ) {
        self.merge_counts();
        self.last_ns = self.last_ns.max(arrival.ns);
        self.datagrams.add(from_client, 1);
        let at = At {
            ns: arrival.ns,
            datagram: self.datagrams.server,
        };
        let place = Place {
            arrival,
            at,
            from_client,
            path,
            keyring,
        };
        let may_repeat = self.timeline.counts_datagrams() && !arrival.is_cut(datagram.sealed);
        self.timeline.datagram(may_repeat && datagram.is_repeat());
        if !from_client {
            self.timeline
                .server_datagram(arrival.ns, arrival.length, arrival.ttl);
            if arrival.length == 0 {
                self.timeline.undecrypted(at.ns, "empty datagram");
            }
        }
        self.payload = PayloadSummary::default();
        let packets_before = self.packets;
        let sealed = datagram.sealed;
        // Long headers are parsed without a known connection ID length.
        let mut first = first.filter(|packet| packet.kind != PacketType::OneRtt);
        let mut start = 0;
        // The missing bytes are those that a trimmed capture omits.
        let mut is_trimmed = false;
        while start < sealed.len() {
            // Some stacks pad a datagram with zeros after the last packet.
            if start > 0 && is_zeros(&sealed[start..]) {
                break;
            }
            if arrival.is_cut(sealed)
                && let Some(packet) = self.bare_packet(place, sealed, start)
            {
                self.packets.add(from_client, 1);
                self.sealed_packet(&packet, place, sealed, &mut log);
                is_trimmed = true;
                break;
            }
            let parsed = match first.take() {
                Some(first) => Ok(Cow::Borrowed(first)),
                None => {
                    let cid_length = self.short_cid_length(from_client, &sealed[start..]);
                    parse_packet(sealed, start, cid_length)
                        .or_else(|error| {
                            self.greased_packet(from_client, sealed, start, cid_length)
                                .ok_or(error)
                        })
                        .map(Cow::Owned)
                }
            };
            let packet = match &parsed {
                Ok(packet) => packet.as_ref(),
                Err(error) => {
                    let is_cut = arrival.is_cut(sealed) && *error == Error::Truncated;
                    let left = is_cut.then(|| parse_cut_header(sealed, start)).flatten();
                    if let Some(packet) = left {
                        self.packets.add(from_client, 1);
                        self.cut_packet(&packet, place, &mut log);
                    } else {
                        let what = if is_cut { CUT } else { "header does not parse" };
                        self.undecrypted(at, from_client, what);
                        note(&mut log, |_| unparsed(sealed.len() - start, *error));
                    }
                    break;
                }
            };
            start = packet.end;
            self.packets.add(from_client, 1);
            self.packet(packet, place, datagram, &mut log);
        }
        if arrival.is_cut(sealed) && !is_trimmed {
            self.datagram_cut(at, from_client, sealed);
        }
        self.volume.packet(&Carried {
            ns: arrival.ns,
            from_client,
            ip_bytes: arrival.ip_length.bytes as u64,
            is_guessed: arrival.ip_length.is_guessed,
            is_again: self.payload.is_again(),
            has_payload: self.payload.has_payload,
            new_payload: self.payload.new_payload,
        });
        if let Some(acks) = &mut self.acks {
            let packets = self.packets.since(packets_before, from_client);
            acks.datagram(from_client, packets, arrival.ip_length.bytes);
        }
        if !keyring.is_empty() {
            let brings = self.payload.brings;
            self.timeline
                .flights
                .datagram(arrival.ns, arrival.length, from_client, brings);
        }
        if from_client {
            self.timeline
                .client_datagram(arrival.ns, arrival.length, arrival.ttl);
        } else {
            self.timeline.server_datagram_end();
        }
        if self.closed {
            self.release();
        }
        self.update_count_only();
    }

    pub(super) fn undecrypted(&mut self, at: At, from_client: bool, what: &'static str) {
        self.undecrypted_packets = self.undecrypted_packets.saturating_add(1);
        if !from_client {
            self.timeline.undecrypted(at.ns, what);
        }
    }

    /// The capture cut a datagram to `sealed`.
    fn datagram_cut(&mut self, at: At, from_client: bool, sealed: &[u8]) {
        self.is_cut = true;
        let begins_long = sealed.first().is_none_or(|byte| byte & 0x80 != 0);
        if !from_client {
            self.timeline.server_cut(at, begins_long);
        } else if begins_long {
            self.timeline.client_cut(at);
        }
    }

    /// A packet with only the header in the capture.
    fn cut_packet(&mut self, packet: &Packet, place: Place<'_>, log: &mut PacketLog<'_>) {
        if packet.kind == PacketType::Initial && place.from_client {
            self.cut_initial(packet, place.at.ns);
        }
        let is_handshake = packet.kind == PacketType::Handshake;
        if is_handshake && self.handshake_packet(packet, place) {
            self.undecrypted_packets = self.undecrypted_packets.saturating_add(1);
        } else {
            self.undecrypted(place.at, place.from_client, CUT);
        }
        note(log, |style| {
            let header = LoggedHeader {
                first_byte: Some(packet.first_byte),
                ..LoggedHeader::default()
            };
            logged(style, packet, header, None, Some(CUT.into()))
        });
    }

    /// Records a Handshake packet. Its type is sufficient, so it counts without keys, too. Returns whether it is a
    /// packet of the server that continues the handshake.
    pub(super) fn handshake_packet(&mut self, packet: &Packet, place: Place<'_>) -> bool {
        if place.from_client {
            self.timeline.client_handshake(self.datagrams.client);
            return false;
        }
        let goes_on = packet.dcid == self.client_scid && self.is_from_server(packet);
        if goes_on {
            self.timeline.server_handshake(place.at);
        }
        goes_on
    }

    fn packet(
        &mut self,
        packet: &Packet,
        place: Place<'_>,
        datagram: &mut Bytes<'_>,
        log: &mut PacketLog<'_>,
    ) {
        let (at, from_client) = (place.at, place.from_client);
        let sealed = datagram.sealed;
        match packet.kind {
            PacketType::Initial
            | PacketType::Handshake
            | PacketType::ZeroRtt
            | PacketType::OneRtt => return self.protected(packet, place, datagram, log),
            PacketType::Retry if !from_client => self.retry(packet, at, sealed),
            PacketType::VersionNegotiation if !from_client => {
                let versions: Result<Vec<Version>, Error> =
                    packet.versions(sealed).map(Iterator::collect);
                let echoed = packet.dcid == self.client_scid && packet.scid == self.odcid;
                // The client drops a packet that does not answer its Initial (RFC 9000 6.2), so it is ignored.
                if let Some(list) = versions.ok().filter(|_| echoed) {
                    self.timeline
                        .version_negotiation(at.ns, self.version, &list);
                }
            }
            _ => self.undecrypted(at, from_client, "packet of another version or kind"),
        }
        note(log, |style| {
            logged(style, packet, LoggedHeader::of(packet, sealed), None, None)
        });
    }

    fn retry(&mut self, packet: &Packet, at: At, datagram: &[u8]) {
        let echoed = packet.dcid == self.client_scid && packet.version == self.version_in_use;
        // The client drops a Retry without a token, and a Retry without a new connection ID (RFC 9000 17.2.5).
        let useless = packet.token(datagram).is_empty() || packet.scid == self.odcid;
        if !echoed || !useless && !retry_is_intact(datagram, packet, &self.odcid) {
            self.timeline
                .undecrypted(at.ns, "Retry with wrong integrity tag or connection ID");
        } else if !useless && self.timeline.retry(at.ns) {
            self.retry_scid = Some(packet.scid);
            self.server_cids.add(packet.scid);
        }
    }

    /// An Initial, Handshake, 0-RTT or 1-RTT packet.
    fn protected(
        &mut self,
        packet: &Packet,
        place: Place<'_>,
        datagram: &mut Bytes<'_>,
        log: &mut PacketLog<'_>,
    ) {
        let (at, from_client) = (place.at, place.from_client);
        let sealed = datagram.sealed;
        let is_initial = packet.kind == PacketType::Initial;
        if !from_client && is_initial && !(packet.token.is_empty() && self.is_from_server(packet)) {
            let why = Some("token, or another connection ID than before".into());
            return note(log, |style| {
                logged(style, packet, LoggedHeader::of(packet, sealed), None, why)
            });
        }
        // Not for this client, even if a key decrypts it (RFC 9000 5.2).
        if is_initial && !from_client && packet.dcid != self.client_scid {
            self.undecrypted(at, from_client, "Initial to another connection ID");
            return note(log, |style| {
                let why = Some("another connection ID".into());
                logged(style, packet, LoggedHeader::of(packet, sealed), None, why)
            });
        }
        let goes_on = packet.kind == PacketType::Handshake && self.handshake_packet(packet, place);
        let header = if log.is_some() {
            LoggedHeader::of(packet, sealed)
        } else {
            LoggedHeader::default()
        };
        let opened = match self.decrypt(place.keyring, packet, from_client, datagram, at.ns) {
            Ok(opened) => opened,
            Err(error) => {
                if is_initial {
                    self.undecrypted(at, from_client, "Initial that does not authenticate");
                } else {
                    self.not_opened(place, goes_on);
                }
                // Without keys for the packet, there is no fault to report.
                let why = is_initial.then(|| error.to_string());
                return note(log, |style| logged(style, packet, header, None, why));
            }
        };
        if is_initial && !from_client {
            if self.server_scid.is_none() {
                self.new_connection_id(false, packet.scid);
            }
            self.names_itself(packet.scid);
        }
        let number = opened.packet_number;
        let space = space(packet.kind);
        if self.numbers.of(space, from_client).is_repeat(number) {
            return note(log, |style| {
                logged(
                    style,
                    packet,
                    header,
                    Some(&opened),
                    Some("seen before".into()),
                )
            });
        }
        // A fault makes the whole Initial invalid, because RFC 9000 12.4 (table 3) lists all frames that it may hold.
        // In other packets, a frame of an unknown type only hides the frames after it. A broken frame makes the whole
        // packet unusable.
        let mut frames = FrameList::new();
        let read = read_frames(opened.payload, is_initial, &mut frames);
        if read.is_err() {
            self.timeline.not_understood();
        }
        let unknown = match read {
            Err(error @ Error::UnknownFrame(_)) => Some(error),
            _ => None,
        };
        if let Err(error) = read
            && unknown.is_none()
        {
            if !is_initial {
                self.timeline.frames_hidden(space, from_client);
            }
            if is_initial && !from_client {
                self.timeline
                    .malformed(at.ns, &format!("Initial {number} opened: {error}"));
            }
            return note(log, |style| {
                logged(
                    style,
                    packet,
                    header,
                    Some(&opened),
                    Some(error.to_string()),
                )
            });
        }
        note(log, |style| {
            let read = summary(&frames);
            let words = match unknown {
                Some(error) if read.is_empty() => error.to_string(),
                Some(error) => format!("{read}; {error}"),
                None => read,
            };
            logged(style, packet, header, Some(&opened), Some(words))
        });
        if packet.kind == PacketType::OneRtt && from_client {
            self.client_moves(place.path, number, &frames);
        }
        if self.acks.is_some() {
            self.follow_acks(from_client, at.ns, space, packet.size(), &opened);
        }
        self.frames(&NewPacket {
            space,
            from_client,
            at,
            number,
            frames: &frames,
            datagram_bytes: place.arrival.length,
            // Without keys, it is unknown which bytes arrived.
            with_bytes: !place.keyring.is_empty(),
        });
        if unknown.is_some() {
            self.timeline.frames_hidden(space, from_client);
        }
    }
}

impl Connection {
    /// Processes a decrypted packet for `quic_ack`.
    fn follow_acks(
        &mut self,
        from_client: bool,
        ns: i64,
        space: Space,
        size: usize,
        opened: &Opened<'_>,
    ) {
        let of_client = self.hello.transport_parameters.as_deref();
        let delay = if from_client {
            of_client.map(|body| AckDelay::advertised(TransportParameters::new(body)))
        } else {
            Some(self.recovery.ack_delay)
        };
        let delay = delay.unwrap_or_default();
        let packet = AckPacket {
            space,
            ns,
            number: opened.packet_number,
            size,
            payload: opened.payload,
            max_ack_delay_ms: delay.max_ms,
            exponent: delay.exponent,
        };
        if let Some(acks) = &mut self.acks {
            acks.packet(from_client, &packet);
        }
    }
}

/// A packet's frames: rarely many.
type FrameList<'a> = SmallVec<[Frame<'a>; 8]>;

pub(super) fn is_zeros(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0) && Reader::new(bytes).skip_zeros() == bytes.len()
}

/// Reads a packet's frames. An Initial must hold frames, and only permitted ones (RFC 9000 12.4). An application
/// close is accepted nevertheless, because it closes the connection whatever its type.
fn read_frames<'a>(
    payload: &'a [u8],
    is_initial: bool,
    frames: &mut FrameList<'a>,
) -> Result<(), Error> {
    for frame in Frames::new(payload) {
        match frame {
            Ok(frame) => frames.push(frame),
            // All frame types of an Initial are known.
            Err(Error::UnknownFrame(_)) if is_initial => {
                return Err(Error::Malformed("frame type"));
            }
            Err(error) => return Err(error),
        }
    }
    if !is_initial {
        return Ok(());
    }
    let allowed = |frame: &Frame<'_>| {
        frame.allowed_in_initial() || matches!(frame, Frame::ApplicationClose { .. })
    };
    if frames.is_empty() {
        return Err(Error::Malformed("packet without frames"));
    }
    if !frames.iter().all(allowed) {
        return Err(Error::Malformed("frame that no Initial may hold"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
