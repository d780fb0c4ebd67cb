//! Connection IDs that one side may be addressed by (RFC 9000 5.1).

use firstflight_wire::ConnectionId;
use smallvec::{SmallVec, smallvec};

/// Connection IDs kept of one side; of more, those in the middle are forgotten.
const KEPT: usize = 64;

/// Connection IDs of one side, in the order of issue.
#[derive(Debug, Default)]
pub(super) struct Cids(SmallVec<[ConnectionId; 2]>);

impl Cids {
    /// Beginning with `first`.
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

    /// Whether `cid` is one of them.
    pub(super) fn owns(&self, cid: &[u8]) -> bool {
        self.0
            .iter()
            .any(|known| known.len() == cid.len() && known.begins(cid))
    }

    /// Whether a short header carries one of them; `after_first_byte` is what follows its first byte.
    pub(super) fn owns_short(&self, after_first_byte: &[u8]) -> bool {
        self.0.iter().any(|cid| cid.begins(after_first_byte))
    }

    /// The one that a short header carries; `after_first_byte` is what follows its first byte. The longest
    /// that fits.
    pub(super) fn of_short(&self, after_first_byte: &[u8]) -> Option<ConnectionId> {
        self.0
            .iter()
            .filter(|cid| cid.begins(after_first_byte))
            .max_by_key(|cid| cid.len())
            .copied()
    }

    /// Length of the newest.
    pub(super) fn length(&self) -> Option<usize> {
        self.0.last().map(ConnectionId::len)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them.
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
