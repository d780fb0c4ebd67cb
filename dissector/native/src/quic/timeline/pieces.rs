//! Which bytes in a stream were sent, in any order.

use smallvec::SmallVec;

/// Maximum number of pieces with gaps between them. A ClientHello sent in disorder has about twenty.
const MOST: usize = 64;

/// First byte and the one after the last.
type Piece = (u64, u64);

/// A stream's bytes before `whole`, and the pieces after the first gap.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    whole: u64,
    /// In order, with gaps between them. Boxed: few clients have any.
    beyond: Option<Box<SmallVec<[Piece; 4]>>>,
}

impl Pieces {
    /// Adds the bytes from `start` up to `end`, exclusive. Returns whether some of them are new, or `None` if there are
    /// too many pieces.
    pub(super) fn add(&mut self, start: u64, end: u64) -> Option<bool> {
        let start = start.max(self.whole);
        if start >= end {
            return Some(false);
        }
        if start == self.whole && self.beyond.is_none() {
            self.whole = end;
            return Some(true);
        }
        let pieces = self.beyond.get_or_insert_default();
        if pieces
            .iter()
            .any(|piece| piece.0 <= start && end <= piece.1)
        {
            return Some(false);
        }
        let from = pieces.partition_point(|piece| piece.1 < start);
        let to = pieces.partition_point(|piece| piece.0 <= end);
        if from == to && start > self.whole && pieces.len() == MOST {
            return None;
        }
        let mut joined = (start, end);
        for piece in pieces.drain(from..to) {
            joined = (joined.0.min(piece.0), joined.1.max(piece.1));
        }
        if joined.0 > self.whole {
            pieces.insert(from, joined);
            return Some(true);
        }
        self.whole = joined.1;
        if pieces.is_empty() {
            self.beyond = None;
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_new_once_in_any_order() {
        let mut pieces = Pieces::default();
        for (start, end, is_new, whole, beyond) in [
            (10, 20, true, 0, &[(10, 20)][..]),
            (12, 20, false, 0, &[(10, 20)]),
            (30, 40, true, 0, &[(10, 20), (30, 40)]),
            (19, 21, true, 0, &[(10, 21), (30, 40)]),
            (25, 30, true, 0, &[(10, 21), (25, 40)]),
            (7, 7, false, 0, &[(10, 21), (25, 40)]),
            (0, 5, true, 5, &[(10, 21), (25, 40)]),
            (0, 5, false, 5, &[(10, 21), (25, 40)]),
            (2, 10, true, 21, &[(25, 40)]),
            (0, 40, true, 40, &[]),
            (0, 40, false, 40, &[]),
            (39, 41, true, 41, &[]),
            (50, 60, true, 41, &[(50, 60)]),
            (45, 70, true, 41, &[(45, 70)]),
        ] {
            assert_eq!(pieces.add(start, end), Some(is_new), "{start}..{end}");
            let found = pieces.beyond.as_deref().map_or(&[][..], |p| p.as_slice());
            assert_eq!((pieces.whole, found), (whole, beyond), "{start}..{end}");
        }
    }

    #[test]
    fn too_many_pieces_are_not_followed() {
        let mut pieces = Pieces::default();
        for n in 1..=MOST as u64 {
            assert_eq!(pieces.add(2 * n, 2 * n + 1), Some(true));
        }
        assert_eq!(pieces.add(1000, 1001), None);
        assert_eq!(pieces.add(2, 3), Some(false));
        // These join two, and make room for another.
        assert_eq!(pieces.add(3, 4), Some(true));
        assert_eq!(pieces.add(1000, 1001), Some(true));
        assert_eq!(pieces.add(0, 1), Some(true));
        assert_eq!(pieces.whole, 1);
    }
}
