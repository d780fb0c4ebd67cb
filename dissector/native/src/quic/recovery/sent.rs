//! The packets that one side sent in a packet number space. A bounded number of them is remembered.

use std::collections::VecDeque;

use firstflight_wire::{Ack, Frame};
use smallvec::SmallVec;

use crate::flow::coverage::Coverage;

/// Minimum number of remembered packets; older ones are forgotten.
pub(super) const PACKETS: usize = 256;
/// Maximum number of streams with a remembered highest offset, and of repeated packets that await an acknowledgement.
const STREAMS: usize = 256;
/// Maximum number of remembered pieces per packet, and their mean over all packets. Without the limit, a packet with
/// 200 one-byte pieces would cause comparisons with the pieces of thousands of packets.
const PIECES: usize = 16;
const PIECES_REMEMBERED: usize = 4;
/// Represents the CRYPTO stream. Stream IDs have at most 62 bits.
const CRYPTO: u64 = u64::MAX;

/// Bytes in a stream: its ID or [`CRYPTO`], first offset, offset after the last.
#[derive(Clone, Copy, Debug)]
struct Carried {
    stream: u64,
    start: u64,
    end: u64,
}

impl Carried {
    fn of(frame: &Frame<'_>) -> Option<Carried> {
        let (stream, offset, data) = match frame {
            Frame::Crypto { offset, data } => (CRYPTO, *offset, *data),
            Frame::Stream {
                id, offset, data, ..
            } => (*id, *offset, *data),
            _ => return None,
        };
        let end = offset + data.len() as u64;
        (!data.is_empty()).then_some(Carried {
            stream,
            start: offset,
            end,
        })
    }

    fn overlaps(&self, other: &Carried) -> bool {
        self.stream == other.stream && self.start < other.end && other.start < self.end
    }

    /// Extends to the end of `next` if both are on one stream. The caller ensures that `next` starts no earlier.
    fn extend_to(&mut self, next: &Carried) -> bool {
        let is_same = self.stream == next.stream;
        if is_same {
            self.end = self.end.max(next.end);
        }
        is_same
    }
}

/// Merges a packet's bytes into as few pieces as possible. If they are still too many, returns `true` and one
/// piece per stream, from the first to the last byte.
fn pieces(carried: &[Carried]) -> (SmallVec<[Carried; 4]>, bool) {
    let mut pieces: SmallVec<[Carried; 4]> = SmallVec::from_slice(carried);
    pieces.sort_unstable_by_key(|piece| (piece.stream, piece.start));
    pieces.dedup_by(|next, piece| next.start <= piece.end && piece.extend_to(next));
    let is_scattered = pieces.len() > PIECES;
    if is_scattered {
        pieces.dedup_by(|next, piece| piece.extend_to(next));
        pieces.truncate(PIECES);
    }
    (pieces, is_scattered)
}

#[derive(Debug)]
struct Packet {
    number: u64,
    ns: i64,
    is_eliciting: bool,
    is_acknowledged: bool,
    /// A packet with a lower number carried some of the same bytes.
    is_repeat: bool,
}

/// The payload in a datagram's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PayloadSummary {
    /// CRYPTO or STREAM bytes that a packet with a lower number had carried or passed over.
    repeats: bool,
    /// Other bytes of CRYPTO, STREAM or DATAGRAM frames.
    pub brings: bool,
    /// STREAM or DATAGRAM bytes.
    pub has_payload: bool,
    /// How many of these were not seen before.
    pub new_payload: u64,
}

impl PayloadSummary {
    /// Adds the payload of another packet of the datagram.
    pub fn add(&mut self, other: &PayloadSummary) {
        self.repeats |= other.repeats;
        self.brings |= other.brings;
        self.has_payload |= other.has_payload;
        self.new_payload += other.new_payload;
    }

    /// Whether the datagram is a retransmission: it carries stream bytes, but no new ones.
    pub fn is_again(&self) -> bool {
        self.repeats && !self.brings
    }
}

/// A stream with sent bytes.
#[derive(Debug)]
struct Stream {
    id: u64,
    /// Highest offset sent.
    highest: u64,
    /// Which bytes were seen, by the lowest 32 bits of their offsets.
    seen: Coverage,
}

/// Packets that an ACK frame newly acknowledged, if they give a sample (RFC 9002 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewlyAcknowledged {
    /// When the largest acknowledged packet was sent.
    pub sent_ns: i64,
}

/// Sent packets in a space, and the spurious retransmissions among them.
#[derive(Debug, Default)]
pub struct Sent {
    /// By packet number.
    packets: VecDeque<Packet>,
    /// Highest packet number.
    latest: Option<u64>,
    /// (packet number, bytes), by packet number.
    carried: VecDeque<(u64, Carried)>,
    streams: Vec<Stream>,
    /// (packet that first carried the bytes, number of packets that carried them again).
    repeated: Vec<(u64, u32)>,
    /// Packets that repeat bytes although the first packet with them was acknowledged.
    pub spurious: u32,
    /// A packet had its bytes in too many pieces to detect every repetition.
    pub is_scattered: bool,
}

impl Sent {
    /// Adds a sent packet and summarizes the payload. A packet number that appears again, long after the first time,
    /// repeats nothing. `with_bytes`: remember the packet's bytes; without it, the summary is empty.
    /// `remembered`: how many packets to keep; fewer if they have many pieces.
    pub fn packet(
        &mut self,
        number: u64,
        ns: i64,
        frames: &[Frame<'_>],
        with_bytes: bool,
        remembered: usize,
    ) -> PayloadSummary {
        let of_interest = if with_bytes { frames } else { &[] };
        let carried: SmallVec<[Carried; 4]> = of_interest.iter().filter_map(Carried::of).collect();
        let (pieces, is_scattered) = pieces(&carried);
        self.is_scattered |= is_scattered;
        // Nearly all packets carry new bytes and need no search.
        let mut is_repeat = false;
        if pieces.iter().any(|piece| self.was_reached(piece)) {
            if let Some((first, is_acknowledged)) = self.first_with(number, &pieces) {
                is_repeat = true;
                if is_acknowledged {
                    self.spurious = self.spurious.saturating_add(1);
                } else {
                    self.repeats(first, 1);
                }
            } else {
                // This packet is late. The packets with higher numbers and the same bytes are the repetitions.
                let times = self.repeats_earlier(number, &pieces);
                self.repeats(number, times);
            }
        }
        let mut payload = self.summarize(number, &carried, &pieces);
        for piece in &carried {
            let new = self.reached(piece);
            if piece.stream != CRYPTO {
                payload.has_payload = true;
                payload.new_payload += new;
            }
        }
        for frame in of_interest {
            if let Frame::Datagram { data } = frame {
                payload.has_payload = true;
                payload.brings = true;
                payload.new_payload += data.len() as u64;
            }
        }
        self.latest = self.latest.max(Some(number));
        let place = self.packets.partition_point(|p| p.number < number);
        let packet = Packet {
            number,
            ns,
            is_eliciting: frames.iter().any(Frame::is_ack_eliciting),
            is_acknowledged: false,
            is_repeat,
        };
        self.packets.insert(place, packet);
        if !pieces.is_empty() {
            let place = self.carried.partition_point(|(n, _)| *n < number);
            for (i, piece) in pieces.into_iter().enumerate() {
                self.carried.insert(place + i, (number, piece));
            }
        }
        let most_pieces = remembered.saturating_mul(PIECES_REMEMBERED).max(PIECES);
        while (self.packets.len() > remembered || self.carried.len() > most_pieces)
            && let Some(oldest) = self.packets.pop_front()
        {
            while self
                .carried
                .front()
                .is_some_and(|(n, _)| *n == oldest.number)
            {
                self.carried.pop_front();
            }
        }
        payload
    }

    /// Stops tracking acknowledgements. Keeps only the data that tells new bytes of streams from old ones; returns
    /// `None` if no stream has bytes.
    pub fn end(mut self: Box<Sent>) -> Option<Box<Sent>> {
        if self.streams.iter().all(|stream| stream.id == CRYPTO) {
            return None;
        }
        self.packets = VecDeque::new();
        self.carried = VecDeque::new();
        self.repeated = Vec::new();
        Some(self)
    }

    /// Whether a new packet has bytes beyond the highest offset of packets with lower numbers: senders send a stream in
    /// order. `pieces` are the remembered pieces of the packet.
    fn summarize(&self, number: u64, carried: &[Carried], pieces: &[Carried]) -> PayloadSummary {
        let is_late = self.latest.is_some_and(|latest| latest > number);
        let mut payload = PayloadSummary::default();
        for piece in if is_late { pieces } else { carried } {
            let before = if is_late {
                self.highest_before(number, piece.stream)
            } else {
                self.highest(piece.stream)
            };
            if before.is_some_and(|highest| piece.end <= highest) {
                payload.repeats = true;
            } else {
                payload.brings = true;
            }
        }
        payload
    }

    /// Highest offset sent in a stream.
    fn highest(&self, stream: u64) -> Option<u64> {
        let known = self.streams.iter().find(|known| known.id == stream);
        known.map(|known| known.highest)
    }

    /// Highest offset of a stream in the remembered packets before `number`.
    fn highest_before(&self, number: u64, stream: u64) -> Option<u64> {
        let before = self.carried.iter().take_while(|(n, _)| *n < number);
        before
            .filter(|(_, piece)| piece.stream == stream)
            .map(|(_, piece)| piece.end)
            .max()
    }

    fn was_reached(&self, piece: &Carried) -> bool {
        self.highest(piece.stream)
            .is_some_and(|highest| piece.start < highest)
    }

    fn packet_with_number(&mut self, number: u64) -> Option<&mut Packet> {
        let place = self.packets.binary_search_by_key(&number, |p| p.number);
        place.ok().and_then(|place| self.packets.get_mut(place))
    }

    /// Marks the packets above `number` with some of these bytes as repetitions. Returns how many were not marked
    /// before.
    fn repeats_earlier(&mut self, number: u64, carried: &[Carried]) -> u32 {
        let above = self.carried.partition_point(|(n, _)| *n <= number);
        let later = self.carried.range(above..);
        let sharing: Vec<u64> = later
            .filter(|(_, piece)| carried.iter().any(|other| piece.overlaps(other)))
            .map(|(n, _)| *n)
            .collect();
        let mut times = 0;
        for number in sharing {
            if let Some(packet) = self.packet_with_number(number).filter(|p| !p.is_repeat) {
                packet.is_repeat = true;
                times += 1;
            }
        }
        times
    }

    /// Number of the packet before `number` that first carried some of these bytes, and whether it is
    /// acknowledged.
    fn first_with(&mut self, number: u64, carried: &[Carried]) -> Option<(u64, bool)> {
        let (first, _) = self
            .carried
            .iter()
            .take_while(|(n, _)| *n < number)
            .find(|(_, piece)| carried.iter().any(|other| piece.overlaps(other)))?;
        let first = *first;
        let packet = self.packet_with_number(first)?;
        Some((first, packet.is_acknowledged))
    }

    fn repeats(&mut self, first: u64, times: u32) {
        if let Some((_, known)) = self.repeated.iter_mut().find(|(n, _)| *n == first) {
            *known = known.saturating_add(times);
        } else if times > 0 && self.repeated.len() < STREAMS {
            self.repeated.push((first, times));
        }
    }

    /// Records bytes. Returns how many of them are new (of CRYPTO: 0).
    fn reached(&mut self, carried: &Carried) -> u64 {
        let known = self.streams.iter_mut().find(|s| s.id == carried.stream);
        let stream = match known {
            Some(known) => known,
            None => {
                if self.streams.len() == STREAMS {
                    self.streams.remove(0);
                }
                self.streams.push(Stream {
                    id: carried.stream,
                    highest: 0,
                    seen: Coverage::starting_at(0),
                });
                let Some(last) = self.streams.last_mut() else {
                    return 0;
                };
                last
            }
        };
        stream.highest = carried.end.max(stream.highest);
        if carried.stream == CRYPTO {
            return 0;
        }
        // A datagram's bytes: far fewer than 2^32.
        let length = (carried.end - carried.start) as u32;
        u64::from(stream.seen.add(carried.start as u32, length))
    }

    /// The peer sent an ACK frame.
    pub fn acknowledge(&mut self, ack: &Ack<'_>) -> Option<NewlyAcknowledged> {
        let mut largest = None;
        let mut any_eliciting = false;
        for range in ack.ranges() {
            let from = self.packets.partition_point(|p| p.number < *range.start());
            if from == 0 && self.packets.front().is_none_or(|p| p.number > *range.end()) {
                break;
            }
            for packet in self.packets.range_mut(from..) {
                if packet.number > *range.end() {
                    break;
                }
                if packet.is_acknowledged {
                    continue;
                }
                packet.is_acknowledged = true;
                any_eliciting |= packet.is_eliciting;
                if packet.number == ack.largest {
                    largest = Some(packet.ns);
                }
                if let Some(at) = self.repeated.iter().position(|(n, _)| *n == packet.number) {
                    let (_, times) = self.repeated.swap_remove(at);
                    self.spurious = self.spurious.saturating_add(times);
                }
            }
        }
        largest
            .filter(|_| any_eliciting)
            .map(|sent_ns| NewlyAcknowledged { sent_ns })
    }
}

#[cfg(test)]
mod tests;
