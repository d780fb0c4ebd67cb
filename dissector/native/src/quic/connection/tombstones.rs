//! Connections that were written out, by hashes of what told them from others.

use std::collections::{HashSet, VecDeque};

use foldhash::fast::RandomState;

/// Hashes that are remembered; the oldest go first.
const REMEMBERED: usize = 1 << 18;

/// The last connections that were written out: their late packets begin nothing.
#[derive(Default)]
pub(super) struct Tombstones {
    hashes: HashSet<u64, RandomState>,
    order: VecDeque<u64>,
}

impl Tombstones {
    /// Adds a hash.
    pub(super) fn add(&mut self, hash: u64) {
        if self.hashes.insert(hash) {
            self.order.push_back(hash);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }
}
