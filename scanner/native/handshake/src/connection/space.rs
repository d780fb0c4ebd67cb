//! A packet number space: unacknowledged packets, received packets, and CRYPTO data in both directions.

use firstflight_core::clock::Mono;
use firstflight_wire::{Ack, CryptoStream};

use super::keys::SpaceKeys;
use super::ranges::Ranges;

/// Maximum number of CRYPTO bytes from a server per space: a certificate chain of 64 KiB and the other messages.
const MOST_CRYPTO: usize = 96 << 10;

/// The three spaces (RFC 9000 12.3), in the order of `Connection::spaces`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Initial,
    Handshake,
    Data,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Initial, Level::Handshake, Level::Data];
}

/// A packet's content, without ACK and PADDING.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Range of CRYPTO bytes: the first one, and the end (exclusive).
    pub crypto: (usize, usize),
    /// Bits of the streams in the packet; see [`super::streams`].
    pub streams: u8,
    pub ping: bool,
    /// Range of retirements of connection IDs: the first one, and the end (exclusive); see [`super::peer_ids`].
    pub retired: (usize, usize),
    /// Number of PATH_RESPONSE frames, which are never retransmitted (RFC 9000 13.3).
    pub responses: usize,
}

impl Content {
    /// Returns whether the packet is ack-eliciting.
    pub fn is_eliciting(&self) -> bool {
        let ranges = [self.crypto, self.retired];
        self.ping
            || self.streams != 0
            || self.responses != 0
            || ranges.iter().any(|(from, to)| from < to)
    }
}

/// An ack-eliciting packet that is not acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub number: u64,
    pub at: Mono,
    /// Number of the datagram.
    pub datagram: u16,
    pub content: Content,
}

/// The CRYPTO stream that we send.
#[derive(Default)]
pub struct CryptoOut {
    bytes: Vec<u8>,
    sent: usize,
    acknowledged: usize,
    /// Acknowledged ranges after an unacknowledged range.
    ahead: Vec<(usize, usize)>,
}

impl CryptoOut {
    /// Adds bytes from the TLS library.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the range to send next, of at most `room` bytes.
    pub fn next(&self, room: usize) -> (usize, usize) {
        (self.sent, self.bytes.len().min(self.sent + room))
    }

    /// Returns a range's bytes.
    pub fn bytes(&self, range: (usize, usize)) -> &[u8] {
        self.bytes.get(range.0..range.1).unwrap_or_default()
    }

    /// Records that the bytes before `end` were sent.
    pub fn mark_sent(&mut self, end: usize) {
        self.sent = self.sent.max(end);
    }

    /// Returns whether bytes wait to be sent.
    pub fn is_waiting(&self) -> bool {
        self.sent < self.bytes.len()
    }

    /// Returns whether there are bytes and all of them are acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged > 0 && self.acknowledged == self.bytes.len()
    }

    /// Queues all unacknowledged bytes for retransmission.
    pub fn send_again(&mut self) {
        self.sent = self.acknowledged;
    }

    /// Queues all bytes for retransmission, as after a Retry.
    pub fn send_all_again(&mut self) {
        (self.sent, self.acknowledged) = (0, 0);
        self.ahead.clear();
    }

    fn acknowledge(&mut self, range: (usize, usize)) {
        self.ahead.push(range);
        while let Some(place) = self
            .ahead
            .iter()
            .position(|(from, _)| *from <= self.acknowledged)
        {
            let (_, to) = self.ahead.swap_remove(place);
            self.acknowledged = self.acknowledged.max(to);
        }
        self.sent = self.sent.max(self.acknowledged);
    }
}

/// One space.
pub struct Space {
    pub keys: Option<SpaceKeys>,
    /// The next packet number.
    pub next: u64,
    pub received: Ranges,
    /// When the first ack-eliciting packet without our ACK was read.
    pub ack_wanted: Option<Mono>,
    pub sent: Vec<Sent>,
    pub out: CryptoOut,
    pub incoming: CryptoStream,
    /// Number of bytes of `incoming` that the TLS library has read.
    pub read: usize,
}

impl Default for Space {
    fn default() -> Self {
        Space {
            keys: None,
            next: 0,
            received: Ranges::default(),
            ack_wanted: None,
            sent: Vec::new(),
            out: CryptoOut::default(),
            incoming: CryptoStream::new(MOST_CRYPTO),
            read: 0,
        }
    }
}

impl Space {
    /// Processes an ACK. Returns the packets that it acknowledges for the first time, in the order sent. Returns `None`
    /// if it acknowledges a packet that was never sent (RFC 9000 13.1).
    pub fn acknowledge(&mut self, ack: &Ack<'_>) -> Option<Vec<Sent>> {
        if ack.largest >= self.next {
            return None;
        }
        let mut fresh = Vec::new();
        self.sent.retain(|sent| {
            let hit = ack.contains(sent.number);
            if hit {
                fresh.push(*sent);
            }
            !hit
        });
        for sent in &fresh {
            self.out.acknowledge(sent.content.crypto);
        }
        Some(fresh)
    }

    /// Drops the keys and all pending data (RFC 9001 4.9).
    pub fn discard(&mut self) {
        self.keys = None;
        self.ack_wanted = None;
        self.sent = Vec::new();
        self.out.mark_sent(usize::MAX);
    }

    /// Returns when the last unacknowledged ack-eliciting packet was sent.
    pub fn last_sent(&self) -> Option<Mono> {
        self.sent.iter().map(|sent| sent.at).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_wire::{Frame, Frames, Writer, write_ack};

    fn acknowledge(space: &mut Space, ranges: &[(u64, u64)]) -> Option<Vec<u64>> {
        let mut out = [0; 64];
        let mut w = Writer::new(&mut out);
        write_ack(&mut w, ranges[0].0, 0, ranges).unwrap();
        let Some(Ok(Frame::Ack(ack))) = Frames::new(w.written()).next() else {
            panic!()
        };
        let fresh = space.acknowledge(&ack)?;
        Some(fresh.iter().map(|sent| sent.number).collect())
    }

    fn sent(number: u64, crypto: (usize, usize)) -> Sent {
        let content = Content {
            crypto,
            ..Content::default()
        };
        Sent {
            number,
            at: 10 * number,
            datagram: 0,
            content,
        }
    }

    #[test]
    fn packets_are_acknowledged_once_and_crypto_in_order() {
        let mut space = Space::default();
        space.out.push(&[1; 30]);
        space.out.mark_sent(30);
        space.sent = vec![sent(0, (0, 10)), sent(1, (10, 20)), sent(2, (20, 30))];
        space.next = 3;
        assert_eq!(acknowledge(&mut space, &[(3, 3)]), None, "never sent");
        assert_eq!(acknowledge(&mut space, &[(1, 1)]), Some(vec![1]));
        assert_eq!(acknowledge(&mut space, &[(1, 1)]), Some(vec![]));
        space.out.send_again();
        assert_eq!(
            space.out.next(5),
            (0, 5),
            "nothing before it is acknowledged"
        );
        assert_eq!(acknowledge(&mut space, &[(0, 0)]), Some(vec![0]));
        assert_eq!(space.out.next(100), (20, 30), "both are acknowledged");
        assert_eq!(space.last_sent(), Some(20));
        assert!(!space.out.is_acknowledged());
        space.sent.clear();
        space.out.send_again();
        assert_eq!(
            space.out.next(100),
            (20, 30),
            "sent again, and acknowledged then"
        );
        space.out.mark_sent(30);
        space.sent = vec![sent(3, (20, 30))];
        space.next = 4;
        acknowledge(&mut space, &[(3, 3)]);
        assert!(space.out.is_acknowledged() && !space.out.is_waiting());
    }

    #[test]
    fn a_discarded_space_sends_nothing() {
        let mut space = Space::default();
        space.out.push(&[1; 30]);
        space.ack_wanted = Some(3);
        space.sent = vec![sent(0, (0, 10))];
        assert!(space.out.is_waiting());
        space.discard();
        assert!(!space.out.is_waiting() && space.ack_wanted.is_none() && space.sent.is_empty());
        assert_eq!(space.out.bytes(space.out.next(10)), b"");
    }
}
