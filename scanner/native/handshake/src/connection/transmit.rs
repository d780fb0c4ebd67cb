//! Writes datagrams, which coalesce packets of several spaces.

use firstflight_core::clock::Mono;
use firstflight_wire::{
    ConnectionId, Error, LongHeader, PacketType, ShortHeader, Writer, build_packet,
    build_short_packet, write_application_close, write_connection_close, write_crypto,
    write_path_response, write_ping, write_retire_connection_id,
};

use super::space::{Content, Level, Sent, Space};
use super::timers::ACK_DELAY;
use super::{Closing, Connection, NO_ERROR};

/// Minimum size of datagrams with an Initial, and maximum size of other datagrams (RFC 9000 14).
const SMALLEST_INITIAL: usize = 1200;

/// Maximum number of bytes in a packet that are not CRYPTO data: the header with the token length and packet number,
/// frame headers, an ACK of some ranges, the tag.
const OVERHEAD: usize = 120;

/// Returns the maximum size of these RETIRE_CONNECTION_ID and PATH_RESPONSE frames.
fn control_size(retired: (usize, usize), responses: usize) -> usize {
    9 * (retired.1 - retired.0 + responses)
}

/// A datagram that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    pub size: usize,
    /// Number within the connection, from 0.
    pub number: u16,
}

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
struct Planned {
    level: Level,
    ack: bool,
    content: Content,
}

impl Connection {
    /// Writes the next datagram. Returns `None` if there is nothing to send.
    pub fn transmit(&mut self, now: Mono, out: &mut [u8]) -> Result<Option<Datagram>, Error> {
        if self.is_over() {
            let closing = self.closing.take();
            return closing.map(|closing| self.close(closing, out)).transpose();
        }
        let planned = self.plan(now);
        let Some(last) = planned.last().map(|last| last.level) else {
            return Ok(None);
        };
        let first_flight = &self.observed.first_flight;
        self.replied |= first_flight.datagrams > 0 || self.observed.retransmissions > self.repeated;
        let number = self.observed.sent.datagrams;
        let pads = planned[0].level == Level::Initial;
        // A datagram with a PATH_RESPONSE is padded (RFC 9000 8.2.2).
        let fills = pads || planned.iter().any(|packet| packet.content.responses > 0);
        let limit = if pads { self.size } else { SMALLEST_INITIAL };
        let limit = limit.min(out.len());
        let mut size = 0;
        for packet in &planned {
            let pad_to = (fills && packet.level == last).then(|| limit - size);
            size += self.packet(packet, pad_to, &mut out[size..limit])?;
        }
        for packet in planned {
            self.mark_sent(packet, now, number);
        }
        self.observed.sent.add(size);
        if self.spaces[Level::Handshake as usize].next == 0 {
            self.observed.sent_unvalidated = self.observed.sent;
        } else if self.spaces[Level::Initial as usize].keys.is_some() {
            // A client discards its Initial keys when it first sends a Handshake packet (RFC 9001 4.9.1).
            self.space(Level::Initial).discard();
        }
        Ok(Some(Datagram { size, number }))
    }

    /// Returns whether the next datagram will be acknowledged.
    pub fn wants_stamp(&self) -> bool {
        let waiting = |space: &Space| space.keys.is_some() && space.out.is_waiting();
        let (retired, responses) = self.control_frames();
        let control = retired.0 < retired.1 || responses > 0;
        let data = self.level == Level::Data && (control || self.streams.sendable() != 0);
        !self.is_over() && (data || self.ping.is_some() || self.spaces.iter().any(waiting))
    }

    /// Returns the packets of the next datagram, in order of their levels.
    fn plan(&self, now: Mono) -> Vec<Planned> {
        let mut planned = Vec::new();
        let mut room = self.size;
        for level in Level::ALL {
            let space = &self.spaces[level as usize];
            let early = level == Level::Data && self.early.is_some();
            if space.keys.is_none() && !early {
                continue;
            }
            let overhead = OVERHEAD
                + if level == Level::Initial {
                    self.token.len()
                } else {
                    0
                };
            let crypto = space.out.next(room.saturating_sub(overhead));
            // Only 1-RTT packets have these frames. The 0-RTT keys are dropped before the server can request any.
            let (retired, responses) = if level == Level::Data && !early {
                self.control_frames()
            } else {
                ((0, 0), 0)
            };
            let overhead = overhead + control_size(retired, responses);
            let content = Content {
                crypto: if crypto.0 < crypto.1 { crypto } else { (0, 0) },
                streams: if level == Level::Data {
                    let alone = planned.is_empty() && retired.0 == retired.1 && responses == 0;
                    self.fitting(overhead + self.size - room, alone)
                } else {
                    0
                },
                ping: self.ping == Some(level),
                retired,
                responses,
            };
            let ack = match space.ack_wanted {
                None => false,
                Some(_) if level != Level::Data => true,
                Some(since) => {
                    content.is_eliciting() || !planned.is_empty() || now >= since + ACK_DELAY
                }
            };
            if ack || content.is_eliciting() {
                room = room.saturating_sub(overhead + crypto.1 - crypto.0);
                planned.push(Planned {
                    level,
                    ack,
                    content,
                });
            }
        }
        planned
    }

    /// Returns the range of retirements and the number of PATH_RESPONSE frames to send.
    fn control_frames(&self) -> ((usize, usize), usize) {
        (self.peer_ids.next(), self.challenges.len())
    }

    /// Returns the streams to send after `used` bytes in a datagram. These are all sendable streams if they fit, or if
    /// the datagram `is_empty`. Otherwise the streams wait for a separate datagram.
    fn fitting(&self, used: usize, is_empty: bool) -> u8 {
        let bits = self.streams.sendable();
        let fits = used + self.streams.size(bits) <= SMALLEST_INITIAL;
        if fits || is_empty { bits } else { 0 }
    }

    /// Writes a packet and returns the size.
    fn packet(
        &self,
        planned: &Planned,
        pad_to: Option<usize>,
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let space = &self.spaces[planned.level as usize];
        self.seal(planned.level, pad_to, out, |w| {
            if planned.ack {
                space.received.write(w, 0)?;
            }
            let content = &planned.content;
            if content.crypto.0 < content.crypto.1 {
                let bytes = space.out.bytes(content.crypto);
                write_crypto(w, content.crypto.0 as u64, bytes)?;
            }
            for sequence in self.peer_ids.retired(content.retired) {
                write_retire_connection_id(w, *sequence)?;
            }
            for data in &self.challenges[..content.responses] {
                write_path_response(w, data)?;
            }
            self.streams.write(w, content.streams)?;
            if content.ping {
                write_ping(w)?;
            }
            Ok(())
        })
    }

    /// Writes a packet at a level with `frames`.
    fn seal(
        &self,
        level: Level,
        pad_to: Option<usize>,
        out: &mut [u8],
        frames: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let space = &self.spaces[level as usize];
        let dcid = self.peer_ids.current().unwrap_or(self.dcid);
        let packet_number = space.next;
        let pn_len = if packet_number < 128 { 1 } else { 2 };
        if let (Level::Data, Some(keys)) = (level, &self.early) {
            let header = LongHeader {
                kind: PacketType::ZeroRtt,
                pn_len,
                ..LongHeader::initial(
                    self.versions.begun,
                    dcid,
                    self.client_cid.into(),
                    packet_number,
                )
            };
            return build_packet(out, &header, keys, pad_to, frames);
        }
        let keys = space.keys.as_ref().ok_or(Error::Malformed("no keys"))?;
        if level == Level::Data {
            let header = ShortHeader {
                dcid,
                packet_number,
                pn_len,
                key_phase: keys.phase_is_odd(),
            };
            return build_short_packet(out, &header, keys, pad_to, frames);
        }
        let (kind, token) = match level {
            Level::Initial => (PacketType::Initial, &*self.token),
            _ => (PacketType::Handshake, &[][..]),
        };
        let header = LongHeader {
            kind,
            version: self.versions.now,
            dcid,
            scid: ConnectionId::from(self.client_cid),
            token,
            packet_number,
            pn_len,
        };
        build_packet(out, &header, keys, pad_to, frames)
    }

    /// Records that a packet was written into datagram `number`.
    fn mark_sent(&mut self, packet: Planned, now: Mono, number: u16) {
        let Planned { level, content, .. } = packet;
        if packet.ack {
            let space = self.space(level);
            space.ack_wanted = None;
            if let Some(keys) = &mut space.keys {
                keys.acknowledged();
            }
        }
        if content.ping {
            self.ping = None;
        }
        if level == Level::Data {
            self.streams.mark_sent(content.streams);
            self.peer_ids.mark_sent(content.retired.1);
            self.challenges.drain(..content.responses);
            self.early_sent |= self.early.is_some();
        }
        if level == Level::Initial
            && content.crypto.1 > self.hello_sent
            && !self.observed.hello_retry
        {
            self.hello_sent = content.crypto.1;
            let count = &mut self.observed.hello_datagrams;
            *count = count.saturating_add(1);
        }
        let space = self.space(level);
        space.out.mark_sent(content.crypto.1);
        if content.is_eliciting() {
            space.sent.push(Sent {
                number: space.next,
                at: now,
                datagram: number,
                content,
            });
        }
        space.next += 1;
    }

    /// Writes the close at the highest level. While the server may lack keys of that level, also writes it at the level
    /// below (RFC 9000 10.2.3).
    fn close(&mut self, closing: Closing, out: &mut [u8]) -> Result<Datagram, Error> {
        let has = |level: Level| self.spaces[level as usize].keys.is_some();
        let levels: Vec<Level> = Level::ALL.into_iter().filter(|level| has(*level)).collect();
        let pads = levels.first() == Some(&Level::Initial);
        let limit = SMALLEST_INITIAL.min(out.len());
        let mut size = 0;
        for level in &levels {
            let pad_to = (pads && Some(level) == levels.last()).then(|| limit - size);
            let reason = &self.context.contact;
            size += self.seal(*level, pad_to, &mut out[size..limit], |w| {
                match (closing.by_application, *level) {
                    (true, Level::Data) => write_application_close(w, closing.code, reason),
                    // Initial and Handshake packets must not contain the application's code (RFC 9000 10.2.3).
                    (true, _) => write_connection_close(w, NO_ERROR, 0, b""),
                    (false, level) if levels.last() == Some(&level) => {
                        write_connection_close(w, closing.code, 0, reason)
                    }
                    (false, _) => write_connection_close(w, closing.code, 0, b""),
                }
            })?;
        }
        let number = self.observed.sent.datagrams;
        self.observed.sent.add(size);
        Ok(Datagram { size, number })
    }
}
