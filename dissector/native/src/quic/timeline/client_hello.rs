//! Which packets carried which bytes of the ClientHello, and whether an ACK covers it.

use firstflight_wire::Ack;
use smallvec::SmallVec;

/// Maximum number of kept packets with a ClientHello; later ones are ignored.
const MAX_PACKETS: usize = 64;

/// How an ACK covers the ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// It acknowledges no packet with bytes of the ClientHello.
    None,
    /// Together with earlier ACKs, only a part.
    Partial,
    /// Together with earlier ACKs, the whole ClientHello. The earliest acknowledged copy was complete at `sent_ns`.
    Full { sent_ns: i64 },
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    packet_number: u64,
    ns: i64,
    start: u64,
    end: u64,
    acknowledged: bool,
}

/// A ClientHello as sent, with copies.
#[derive(Debug)]
pub struct HelloSent {
    /// Offset of the first byte in the CRYPTO stream: greater than 0 after a HelloRetryRequest.
    pub from: u64,
    end: Option<u64>,
    /// In order of sending.
    pieces: SmallVec<[Piece; 1]>,
}

impl HelloSent {
    pub(super) fn new(from: u64) -> HelloSent {
        HelloSent {
            from,
            end: None,
            pieces: SmallVec::new(),
        }
    }

    pub(super) fn sent(
        &mut self,
        packet_number: u64,
        ns: i64,
        offset: u64,
        bytes: usize,
        end: Option<u64>,
    ) {
        self.end = self.end.or(end);
        let stream_end = offset + bytes as u64;
        if self.pieces.len() < MAX_PACKETS && bytes > 0 && stream_end > self.from {
            let start = offset.max(self.from);
            self.pieces.push(Piece {
                packet_number,
                ns,
                start,
                end: stream_end,
                acknowledged: false,
            });
        }
    }

    /// Send time of the last piece.
    pub(super) fn last_ns(&self) -> Option<i64> {
        self.pieces.last().map(|piece| piece.ns)
    }

    /// Send time of the last piece sent at or before `ns`.
    pub fn last_before_ns(&self, ns: i64) -> Option<i64> {
        let sent = self.pieces.iter().map(|piece| piece.ns);
        sent.filter(|sent_ns| *sent_ns <= ns).max()
    }

    /// Time at which the first copy was complete. If the capture does not hold the whole ClientHello, the first
    /// piece's time.
    pub fn first_ns(&self) -> Option<i64> {
        self.complete_ns(|_| true)
            .or_else(|| self.pieces.first().map(|piece| piece.ns))
    }

    pub(super) fn acknowledge(&mut self, ack: &Ack<'_>) -> Coverage {
        let mut touched = false;
        for piece in &mut self.pieces {
            if ack.contains(piece.packet_number) {
                piece.acknowledged = true;
                touched = true;
            }
        }
        if !touched {
            return Coverage::None;
        }
        self.complete_ns(|piece| piece.acknowledged)
            .map_or(Coverage::Partial, |sent_ns| Coverage::Full { sent_ns })
    }

    /// Time at which the pieces that `takes` selects, in order of sending, first complete the ClientHello.
    fn complete_ns(&self, takes: impl Fn(&Piece) -> bool) -> Option<i64> {
        let end = self
            .end
            .or_else(|| self.pieces.iter().map(|piece| piece.end).max())?;
        let picked: SmallVec<[&Piece; 8]> =
            self.pieces.iter().filter(|piece| takes(piece)).collect();
        (1..=picked.len())
            .find(|&n| covers(&picked[..n], self.from, end))
            .map(|n| picked[n - 1].ns)
    }
}

/// Whether the union of `pieces` holds every byte from `from` to `end`.
fn covers(pieces: &[&Piece], from: u64, end: u64) -> bool {
    let mut reached = from;
    loop {
        let further = pieces
            .iter()
            .filter(|p| p.start <= reached)
            .map(|p| p.end)
            .max()
            .unwrap_or(reached);
        if further >= end {
            return true;
        }
        if further <= reached {
            return false;
        }
        reached = further;
    }
}

#[cfg(test)]
mod tests;
