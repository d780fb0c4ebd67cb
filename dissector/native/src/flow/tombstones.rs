//! Recently removed flows and connections, by hashes of their identity.

use std::collections::{HashSet, VecDeque};

use foldhash::fast::RandomState;

/// The last removed flows or connections. Their late packets do not start new ones.
#[derive(Debug)]
pub struct Tombstones {
    hashes: HashSet<u64, RandomState>,
    order: VecDeque<u64>,
    capacity: usize,
}

impl Tombstones {
    /// Remembers up to `capacity` hashes; the oldest are dropped first.
    pub fn new(capacity: usize) -> Tombstones {
        Tombstones {
            hashes: HashSet::default(),
            order: VecDeque::new(),
            capacity,
        }
    }

    /// Adds a hash.
    pub fn add(&mut self, hash: u64) {
        if self.hashes.insert(hash) {
            self.order.push_back(hash);
        }
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
    }

    pub fn contains(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }
}

#[cfg(test)]
mod tests {
    use super::Tombstones;

    #[test]
    fn the_oldest_are_dropped_first() {
        let mut tombstones = Tombstones::new(2);
        for hash in [1, 2, 1, 3] {
            tombstones.add(hash);
        }
        let found = [1, 2, 3].map(|hash| tombstones.contains(hash));
        assert_eq!(found, [false, true, true]);
    }
}
