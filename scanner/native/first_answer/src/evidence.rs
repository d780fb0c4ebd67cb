//! Observations of an attempt's answer, as small values.

use firstflight_wire::Frame;

use firstflight_core::clock::Stamp;

/// The first ACK that covers the ClientHello, with the packet and datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstAck {
    pub at: Stamp,
    /// Number of the datagram, from 1.
    pub datagram: u16,
    pub datagram_bytes: u16,
    pub packet_number: u64,
    pub delay: u64,
    pub largest: u64,
    pub first_range: u64,
    /// ECT(0), ECT(1) and CE counts.
    pub ecn: Option<[u64; 3]>,
    pub frames: FrameKinds,
    pub eliciting: bool,
}

/// The first byte of the ServerHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstHello {
    pub at: Stamp,
    pub datagram: u16,
    pub packet_number: u64,
    /// See [`PacketNumbers::gap`].
    pub gap: bool,
}

/// Kinds of frames in a packet, in order. Each kind is listed once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameKinds(u32);

/// Kinds of frames in an Initial. A kind's code is the index plus one.
const KINDS: [&str; 6] = [
    "padding",
    "ping",
    "ack",
    "crypto",
    "connection_close",
    "application_close",
];

impl FrameKinds {
    /// Adds the kind of `frame`, unless it was added before or cannot be in an Initial.
    pub fn push(&mut self, frame: &Frame<'_>) {
        let Some(place) = KINDS.iter().position(|kind| *kind == frame.name()) else {
            return;
        };
        let code = place as u32 + 1;
        let mut shift = 0;
        while self.0 >> shift & 0xf != 0 {
            if self.0 >> shift & 0xf == code {
                return;
            }
            shift += 4;
        }
        self.0 |= code << shift;
    }

    /// Returns the names, joined by commas.
    pub fn names(self) -> String {
        let codes = (0..KINDS.len())
            .map(|i| (self.0 >> (4 * i) & 0xf) as usize)
            .take_while(|code| *code != 0);
        codes
            .map(|code| KINDS[code - 1])
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// Packet numbers received in the Initial space, for duplicates and gaps.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketNumbers {
    /// Bit i represents `base` + i. Only 128 numbers around the first one are remembered.
    seen: u128,
    base: u64,
    smallest: u64,
    largest: u64,
    count: u32,
}

impl PacketNumbers {
    /// Returns the largest number.
    pub fn largest(&self) -> Option<u64> {
        (self.count > 0).then_some(self.largest)
    }

    /// Adds `number`. Returns whether it is new. Numbers outside the 128 numbers around the first one are always new.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.count == 0 {
            (self.base, self.smallest, self.largest) = (number.saturating_sub(64), number, number);
        }
        if let Some(bit) = number.checked_sub(self.base).filter(|bit| *bit < 128) {
            if self.seen >> bit & 1 == 1 {
                return false;
            }
            self.seen |= 1 << bit;
        }
        self.smallest = self.smallest.min(number);
        self.largest = self.largest.max(number);
        self.count += 1;
        true
    }

    /// Returns whether a packet seems to be missing: the numbers are not consecutive, or the only number is 1, 2 or 3.
    /// Packet numbers start at 0 (RFC 9000 12.3). Some servers start at 1 or at a large number instead.
    pub fn gap(&self) -> bool {
        self.largest - self.smallest + 1 != u64::from(self.count)
            || self.count == 1 && (1..=3).contains(&self.largest)
    }
}

#[cfg(test)]
mod tests;
