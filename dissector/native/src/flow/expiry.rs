//! Expiry of entries in a table of flows or connections: idle for too long, closed, or evicted due to a limit.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Number of removed entries that may stay queued in any case.
const REMOVED: usize = 1024;

/// Limits for a table.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Idle time after which an entry expires.
    pub idle_ns: i64,
    /// Idle time after which a closed entry expires.
    pub closing_ns: i64,
    /// Maximum number of live entries.
    pub max_live: usize,
}

/// Expiry queues for a table's entries. The table stores them by `Id`. An `Id` is never reused.
#[derive(Debug)]
pub struct Expiry<Id> {
    bounds: Bounds,
    /// (number of entries, idle time in nanoseconds): above this number, entries with this idle time expire.
    spare: (usize, i64),
    /// (time of the last check, id), the earliest first. Entries active since then are queued again at their next
    /// check.
    idle: Earliest<Id>,
    closing: VecDeque<(i64, Id)>,
    evicted: u64,
}

impl<Id: Copy + Ord> Expiry<Id> {
    pub fn new(bounds: Bounds) -> Expiry<Id> {
        Expiry {
            bounds,
            spare: (bounds.max_live, 0),
            idle: Earliest::new(),
            closing: VecDeque::new(),
            evicted: 0,
        }
    }

    /// Adds a second limit: while more than `max_live` entries are live, entries expire after `idle_ns`.
    pub fn sparing(self, max_live: usize, idle_ns: i64) -> Expiry<Id> {
        let spare = (max_live, idle_ns);
        Expiry { spare, ..self }
    }

    /// Adds an entry with the first packet.
    pub fn add(&mut self, id: Id, ns: i64) {
        self.idle.push((ns, id));
    }

    /// Marks an entry as closed at `ns`, the last packet's time.
    pub fn close(&mut self, id: Id, ns: i64) {
        self.closing.push_back((ns, id));
    }

    /// Entries that expired early due to a limit.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns an entry that is expired at `now_ns`. Remove it from the table, and call this again until it returns
    /// `None`. `live` is the number of entries. `last_ns` returns the time of an entry's last packet, or `None` if it
    /// was removed before.
    #[inline]
    pub fn expired(
        &mut self,
        now_ns: i64,
        live: usize,
        last_ns: impl Fn(Id) -> Option<i64>,
    ) -> Option<Id> {
        let longest_ns = self.longest_ns(live);
        let is_due = is_over(self.bounds.closing_ns, self.closing.front(), now_ns)
            || is_over(longest_ns, self.idle.first(), now_ns);
        if !is_due {
            return None;
        }
        self.closed(now_ns, &last_ns)
            .or_else(|| self.idle(now_ns, longest_ns, &last_ns))
    }

    /// Allowed idle time with `live` live entries.
    fn longest_ns(&self, live: usize) -> i64 {
        let (spare, spare_ns) = self.spare;
        if live > self.bounds.max_live {
            i64::MIN
        } else if live > spare {
            self.bounds.idle_ns.min(spare_ns)
        } else {
            self.bounds.idle_ns
        }
    }

    fn closed(&mut self, now_ns: i64, last_ns: impl Fn(Id) -> Option<i64>) -> Option<Id> {
        while is_over(self.bounds.closing_ns, self.closing.front(), now_ns)
            && let Some((checked_ns, id)) = self.closing.pop_front()
        {
            match last_ns(id) {
                Some(last_ns) if last_ns > checked_ns => self.closing.push_back((last_ns, id)),
                Some(_) => return Some(id),
                None => {}
            }
        }
        None
    }

    fn idle(
        &mut self,
        now_ns: i64,
        longest_ns: i64,
        last_ns: impl Fn(Id) -> Option<i64>,
    ) -> Option<Id> {
        while let Some(first) = self.idle.first().copied()
            && is_over(longest_ns, Some(&first), now_ns)
        {
            self.idle.pop();
            let (checked_ns, id) = first;
            match last_ns(id) {
                // Active since: check again when it may have been idle for long enough.
                Some(last_ns) if last_ns > checked_ns => self.add(id, last_ns),
                Some(_) => {
                    // It has been idle for longer than any other live entry.
                    let is_early = !is_over(self.bounds.idle_ns, Some(&first), now_ns);
                    self.evicted += u64::from(is_early);
                    return Some(id);
                }
                None => {}
            }
        }
        None
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.idle.len() + self.closing.len()
    }

    /// Drops removed entries from the queue once they may be the majority. Otherwise, they would stay until their idle
    /// time is over.
    pub fn drop_removed(&mut self, live: usize, is_live: impl Fn(Id) -> bool) {
        if self.idle.len() > 2 * live + REMOVED {
            self.idle.retain(&is_live);
            self.closing.retain(|(_, id)| is_live(*id));
        }
    }

    /// Returns the next entry at the end of a capture, oldest first. It may be removed already.
    pub fn drain(&mut self) -> Option<Id> {
        self.idle.pop().map(|(_, id)| id)
    }
}

/// A queue that returns the earliest entry first, and the lowest id first among equally early ones.
#[derive(Debug)]
struct Earliest<Id> {
    /// Entries added in order, which are nearly all. A large heap is slow, because its accesses are far apart in
    /// memory.
    in_order: VecDeque<(i64, Id)>,
    others: BinaryHeap<Reverse<(i64, Id)>>,
}

impl<Id: Copy + Ord> Earliest<Id> {
    fn new() -> Earliest<Id> {
        Earliest {
            in_order: VecDeque::new(),
            others: BinaryHeap::new(),
        }
    }

    fn push(&mut self, entry: (i64, Id)) {
        if self.in_order.back().is_none_or(|last| *last <= entry) {
            self.in_order.push_back(entry);
        } else {
            self.others.push(Reverse(entry));
        }
    }

    fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }

    fn retain(&mut self, keep: impl Fn(Id) -> bool) {
        self.in_order.retain(|(_, id)| keep(*id));
        self.others.retain(|Reverse((_, id))| keep(*id));
    }

    fn first(&self) -> Option<&(i64, Id)> {
        match (self.in_order.front(), self.others.peek()) {
            (Some(a), Some(Reverse(b))) => Some(a.min(b)),
            (a, b) => a.or(b.map(|Reverse(b)| b)),
        }
    }

    fn pop(&mut self) -> Option<(i64, Id)> {
        let others = self.others.peek().map(|Reverse(entry)| entry);
        let is_other = others.is_some_and(|b| self.in_order.front().is_none_or(|a| b < a));
        if is_other {
            self.others.pop().map(|Reverse(entry)| entry)
        } else {
            self.in_order.pop_front()
        }
    }
}

/// Whether a queue's first entry was idle for longer than `limit_ns` when it was checked.
fn is_over<Id>(limit_ns: i64, first: Option<&(i64, Id)>, now_ns: i64) -> bool {
    first.is_some_and(|(checked_ns, _)| checked_ns.saturating_add(limit_ns) < now_ns)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Entries by id, with the time of their last packet.
    struct Table {
        last_ns: BTreeMap<u8, i64>,
        expiry: Expiry<u8>,
    }

    impl Table {
        fn new(max_live: usize, entries: &[(u8, i64)]) -> Table {
            let mut expiry = Expiry::new(Bounds {
                idle_ns: 60,
                closing_ns: 10,
                max_live,
            });
            for (id, ns) in entries {
                expiry.add(*id, *ns);
            }
            let last_ns = entries.iter().copied().collect();
            Table { last_ns, expiry }
        }

        /// All entries that are expired at `now_ns`, in order.
        fn expired(&mut self, now_ns: i64) -> Vec<u8> {
            let mut found = Vec::new();
            while let Some(id) = self.expiry.expired(now_ns, self.last_ns.len(), |id| {
                self.last_ns.get(&id).copied()
            }) {
                self.last_ns.remove(&id);
                found.push(id);
            }
            found
        }
    }

    #[test]
    fn an_entry_is_over_once_it_was_idle_for_longer_than_the_limit() {
        let mut table = Table::new(9, &[(1, 0), (2, 0)]);
        table.last_ns.insert(2, 30);
        for (now_ns, expected) in [(60, &[][..]), (61, &[1]), (90, &[]), (91, &[2])] {
            assert_eq!(table.expired(now_ns), expected, "at {now_ns}");
        }
        assert_eq!(table.expiry.evicted(), 0);
    }

    #[test]
    fn a_closed_entry_is_over_sooner_and_late_packets_keep_it() {
        let mut table = Table::new(9, &[(1, 0), (2, 0)]);
        table.expiry.close(1, 0);
        table.expiry.close(2, 0);
        table.last_ns.insert(2, 5);
        for (now_ns, expected) in [(10, &[][..]), (11, &[1]), (15, &[]), (16, &[2])] {
            assert_eq!(table.expired(now_ns), expected, "at {now_ns}");
        }
    }

    #[test]
    fn of_too_many_the_one_idle_for_longest_is_evicted() {
        let mut table = Table::new(2, &[(1, 1), (2, 2), (3, 3)]);
        table.last_ns.insert(1, 10);
        assert_eq!(table.expired(10), [2]);
        assert_eq!((table.expiry.evicted(), table.last_ns.len()), (1, 2));
    }

    #[test]
    fn beyond_the_spare_ones_the_long_idle_are_evicted() {
        let mut table = Table::new(3, &[(1, 0), (2, 10), (3, 20)]);
        table.expiry = table.expiry.sparing(1, 15);
        table.last_ns.insert(1, 8);
        for (now_ns, expected) in [(23, &[][..]), (24, &[1]), (25, &[]), (26, &[2])] {
            assert_eq!(table.expired(now_ns), expected, "at {now_ns}");
        }
        // At the limit of `max_live`, an idle entry stays until the general limit.
        for (now_ns, expected) in [(36, &[][..]), (80, &[]), (81, &[3])] {
            assert_eq!(table.expired(now_ns), expected, "at {now_ns}");
        }
        assert_eq!(table.expiry.evicted(), 2);
    }

    #[test]
    fn the_earliest_comes_first_whatever_the_order() {
        let mut queue = Earliest::new();
        let mut sorted = std::collections::BTreeSet::new();
        let mut state = 1u32;
        for round in 0..2000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Mostly in order, some much earlier, some equally early.
            let ns = i64::from(round / 4 + state % 3) - i64::from(state >> 30) * 40;
            queue.push((ns, round as u16));
            sorted.insert((ns, round as u16));
            if state & 4 == 0 {
                assert_eq!(queue.first(), sorted.first());
                assert_eq!(queue.pop(), sorted.pop_first());
            }
        }
        while !sorted.is_empty() {
            assert_eq!(queue.pop(), sorted.pop_first());
        }
        assert!(queue.first().is_none() && queue.pop().is_none());
    }

    #[test]
    fn a_full_table_prefers_the_closed() {
        let mut table = Table::new(1, &[(1, 0), (2, 9)]);
        table.expiry.close(2, 9);
        table.last_ns.insert(1, 20);
        assert_eq!(table.expired(20), [2]);
        assert_eq!(table.expiry.evicted(), 0);
    }

    #[test]
    fn what_was_removed_is_passed_over() {
        let mut table = Table::new(9, &[(1, 0), (2, 1)]);
        table.expiry.close(1, 0);
        table.last_ns.remove(&1);
        assert_eq!(table.expired(100), [2]);
        assert_eq!(table.expiry.drain(), None);
        let mut table = Table::new(9, &[(1, 5), (2, 1)]);
        assert_eq!(table.expiry.drain(), Some(2));
        assert_eq!(table.expiry.drain(), Some(1));
    }
}
