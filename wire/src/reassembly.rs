//! Reassembles CRYPTO streams (RFC 9000 19.6) with bounded memory.

use std::collections::BTreeMap;

/// The data exceeded the limit and was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A stream stores at most `FEW_PIECES + limit / PIECE_OVERHEAD` pieces after a gap. The overhead is the
/// approximate memory for a piece in addition to its data, in bytes.
const FEW_PIECES: usize = 128;
const PIECE_OVERHEAD: usize = 64;

/// The contiguous bytes from offset 0, and the pieces after a gap. Stores at most `limit` bytes. A large offset
/// allocates nothing. The number of pieces is also limited, so that small pieces take little more than twice the
/// limit.
#[derive(Clone, Debug)]
pub struct CryptoStream {
    contiguous: Vec<u8>,
    /// Boxed, because most streams arrive in order.
    ahead: Option<Box<Ahead>>,
    limit: usize,
}

/// Pieces after a gap, by offset.
#[derive(Clone, Debug, Default)]
struct Ahead {
    pieces: BTreeMap<u64, Vec<u8>>,
    /// Total length of the pieces.
    bytes: usize,
}

impl CryptoStream {
    /// Returns an empty stream with the limit `limit`, in bytes.
    pub fn new(limit: usize) -> Self {
        CryptoStream {
            contiguous: Vec::new(),
            ahead: None,
            limit,
        }
    }

    /// Returns all bytes from offset 0 up to the first gap.
    pub fn contiguous(&self) -> &[u8] {
        &self.contiguous
    }

    /// Adds the data from a CRYPTO frame. Bytes that have already arrived are not replaced. Returns whether
    /// [`Self::contiguous`] grew.
    pub fn insert(&mut self, offset: u64, data: &[u8]) -> Result<bool, Full> {
        let before = self.contiguous.len();
        let Some(data) = self.beyond_contiguous(offset, data) else {
            return Ok(false);
        };
        let ahead_bytes = self.ahead.as_ref().map_or(0, |ahead| ahead.bytes);
        if before + ahead_bytes + data.len() > self.limit {
            return Err(Full);
        }
        if offset > before as u64 {
            let ahead = self.ahead.get_or_insert_default();
            let held = ahead.pieces.get(&offset).map_or(0, Vec::len);
            if held == 0 && ahead.pieces.len() >= FEW_PIECES + self.limit / PIECE_OVERHEAD {
                return Err(Full);
            }
            if data.len() > held {
                ahead.bytes += data.len() - held;
                ahead.pieces.insert(offset, data.to_vec());
            }
            return Ok(false);
        }
        self.contiguous.extend_from_slice(data);
        self.take_adjoining();
        Ok(self.contiguous.len() > before)
    }

    /// Moves the pieces that are now adjacent to the contiguous bytes.
    fn take_adjoining(&mut self) {
        let Some(mut ahead) = self.ahead.take() else {
            return;
        };
        while let Some(entry) = ahead.pieces.first_entry() {
            if *entry.key() > self.contiguous.len() as u64 {
                self.ahead = Some(ahead);
                return;
            }
            let (offset, piece) = entry.remove_entry();
            ahead.bytes -= piece.len();
            if let Some(new) = self.beyond_contiguous(offset, &piece) {
                self.contiguous.extend_from_slice(new);
            }
        }
    }

    /// Returns the part of `data` after the contiguous bytes, or all of it if it starts after a gap. `None` if no
    /// byte is new.
    fn beyond_contiguous<'a>(&self, offset: u64, data: &'a [u8]) -> Option<&'a [u8]> {
        let known = (self.contiguous.len() as u64).saturating_sub(offset);
        usize::try_from(known)
            .ok()
            .and_then(|known| data.get(known..))
            .filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_with_overlaps() {
        let text = b"the first flight";
        let mut stream = CryptoStream::new(64);
        assert_eq!(stream.insert(10, &text[10..]), Ok(false));
        assert_eq!(stream.insert(4, &text[4..12]), Ok(false));
        assert_eq!(stream.insert(4, &text[4..6]), Ok(false));
        assert_eq!(stream.insert(0, &text[..5]), Ok(true));
        assert_eq!(stream.contiguous(), text);
        assert_eq!(stream.insert(2, &text[2..9]), Ok(false));
        assert!(stream.ahead.is_none());
    }

    #[test]
    fn the_budget_holds() {
        let mut stream = CryptoStream::new(8);
        assert_eq!(stream.insert(1 << 60, &[0; 5]), Ok(false));
        assert_eq!(stream.insert(0, &[0; 4]), Err(Full));
        assert_eq!(stream.insert(0, &[0; 3]), Ok(true));
        assert_eq!(stream.contiguous().len(), 3);
    }

    #[test]
    fn pieces_are_bounded_in_number() {
        let mut stream = CryptoStream::new(1280);
        // One-byte pieces with gaps.
        for piece in 1..=148 {
            assert_eq!(stream.insert(2 * piece, &[7]), Ok(false), "{piece}");
        }
        assert_eq!(stream.insert(298, &[7]), Err(Full));
        // A stored piece may grow. Filling a gap makes room for another piece.
        assert_eq!(stream.insert(296, &[7; 2]), Ok(false));
        assert_eq!(stream.insert(0, &[7; 3]), Ok(true));
        assert_eq!(stream.contiguous().len(), 3);
        assert_eq!(stream.insert(298, &[7]), Ok(false));
    }
}
