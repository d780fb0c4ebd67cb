//! Connection IDs that address one side (RFC 9000 5.1).

use firstflight_wire::ConnectionId;
use smallvec::{SmallVec, smallvec};

/// Maximum number of connection IDs kept per side; beyond it, the middle ones are dropped.
const KEPT: usize = 64;

/// A side's connection IDs, in the order of issue.
#[derive(Debug, Default)]
pub(super) struct Cids(SmallVec<[ConnectionId; 2]>);

impl Cids {
    /// Creates a list with `first`.
    pub(super) fn new(first: ConnectionId) -> Cids {
        Cids(smallvec![first])
    }

    /// Adds a connection ID and returns whether it is new.
    pub(super) fn add(&mut self, cid: ConnectionId) -> bool {
        if self.owns(cid.as_slice()) {
            return false;
        }
        if self.0.len() == KEPT {
            self.0.remove(KEPT / 2);
        }
        self.0.push(cid);
        true
    }

    /// Whether the list holds `cid`.
    pub(super) fn owns(&self, cid: &[u8]) -> bool {
        self.0
            .iter()
            .any(|known| known.len() == cid.len() && known.begins(cid))
    }

    /// Whether a short header carries a known connection ID. `after_first_byte`: the header without the first byte.
    pub(super) fn owns_short(&self, after_first_byte: &[u8]) -> bool {
        self.0.iter().any(|cid| cid.begins(after_first_byte))
    }

    /// Returns the connection ID in a short header: the longest known one that matches. `after_first_byte`: the header
    /// without its first byte.
    pub(super) fn of_short(&self, after_first_byte: &[u8]) -> Option<ConnectionId> {
        self.0
            .iter()
            .filter(|cid| cid.begins(after_first_byte))
            .max_by_key(|cid| cid.len())
            .copied()
    }

    /// Length of the newest connection ID.
    pub(super) fn length(&self) -> Option<usize> {
        self.0.last().map(ConnectionId::len)
    }

    /// Number of connection IDs.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Iterates over the connection IDs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ConnectionId> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_headers_are_matched_by_any_length() {
        let cid = |bytes: &[u8]| ConnectionId::new(bytes).unwrap();
        let mut cids = Cids::new(cid(&[1, 2]));
        assert!(cids.add(cid(&[1, 2, 3])) && !cids.add(cid(&[1, 2])));
        assert_eq!(cids.of_short(&[1, 2, 3, 4]), Some(cid(&[1, 2, 3])));
        assert_eq!(cids.of_short(&[1, 2, 4]), Some(cid(&[1, 2])));
        assert_eq!(cids.of_short(&[2]), None);
        assert_eq!(cids.length(), Some(3));
        for i in 0..=255 {
            cids.add(cid(&[9, i]));
        }
        assert!(cids.owns(&[1, 2]) && cids.owns(&[9, 255]) && !cids.owns(&[9]));
        assert_eq!(cids.iter().count(), KEPT);
    }

    #[test]
    fn long_headers_hold_one_of_them_and_nothing_more() {
        let cids = Cids::new(ConnectionId::new(&[1, 2]).unwrap());
        for (cid, owned) in [
            (&[1, 2][..], true),
            (&[1], false),
            (&[1, 2, 3], false),
            (&[1, 3], false),
            (&[], false),
        ] {
            assert_eq!(cids.owns(cid), owned, "{cid:?}");
        }
        assert!(Cids::default().length().is_none());
        assert!(!Cids::default().owns(&[]) && !Cids::default().owns_short(&[]));
    }

    #[test]
    fn short_headers_begin_with_one_of_them() {
        let mut cids = Cids::new(ConnectionId::new(&[1, 2]).unwrap());
        cids.add(ConnectionId::new(&[7]).unwrap());
        for (rest, owned) in [
            (&[1, 2][..], true),
            (&[1, 2, 9], true),
            (&[1, 9], false),
            (&[7], true),
            (&[], false),
        ] {
            assert_eq!(cids.owns_short(rest), owned, "{rest:?}");
        }
    }

    #[test]
    fn above_64_those_in_the_middle_are_forgotten() {
        let cid = |i: u8| ConnectionId::new(&[i, 9]).unwrap();
        let mut cids = Cids::new(cid(0));
        for i in 1..64 {
            assert!(cids.add(cid(i)));
        }
        assert_eq!(cids.count(), 64);
        assert!(cids.add(cid(64)) && cids.add(cid(65)));
        assert_eq!(cids.count(), 64);
        let missing: Vec<u8> = (0..66).filter(|i| !cids.owns(&[*i, 9])).collect();
        assert_eq!(missing, [32, 33]);
    }
}
