//! When an entry of a table of flows or connections is over: idle for too long, closed, or evicted because
//! there are too many.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What bounds a table.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Time without a packet after which an entry is over.
    pub idle_ns: i64,
    /// The same once it is closed.
    pub closing_ns: i64,
    /// Entries that may live at the same time.
    pub max_live: usize,
}

/// Queues of the entries of a table, which are kept elsewhere by `Id`. An `Id` is never given to a second
/// entry.
#[derive(Debug)]
pub struct Expiry<Id> {
    bounds: Bounds,
    /// (time of the last check, id), the earliest first. Entries active since then are queued again when
    /// their turn comes.
    idle: BinaryHeap<Reverse<(i64, Id)>>,
    closing: VecDeque<(i64, Id)>,
    evicted: u64,
}

impl<Id: Copy + Ord> Expiry<Id> {
    pub fn new(bounds: Bounds) -> Expiry<Id> {
        Expiry {
            bounds,
            idle: BinaryHeap::new(),
            closing: VecDeque::new(),
            evicted: 0,
        }
    }

    /// Adds an entry with its first packet.
    pub fn add(&mut self, id: Id, ns: i64) {
        self.idle.push(Reverse((ns, id)));
    }

    /// Marks an entry as closed by its packet at `ns`.
    pub fn close(&mut self, id: Id, ns: i64) {
        self.closing.push_back((ns, id));
    }

    /// Entries that were over early because there were too many.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// An entry that is over by the time `now_ns`, if there is one: remove it from the table, and call this
    /// until there is none. `live` is the number of entries, `last_ns` gives the time of an entry's last
    /// packet, `None` for one removed before.
    #[inline]
    pub fn expired(
        &mut self,
        now_ns: i64,
        live: usize,
        last_ns: impl Fn(Id) -> Option<i64>,
    ) -> Option<Id> {
        let is_full = live > self.bounds.max_live;
        let is_due = is_full
            || is_over(self.bounds.closing_ns, self.closing.front(), now_ns)
            || is_over(self.bounds.idle_ns, self.idle.peek().map(|r| &r.0), now_ns);
        if !is_due {
            return None;
        }
        self.closed(now_ns, &last_ns)
            .or_else(|| self.idle(now_ns, is_full, &last_ns))
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
        is_full: bool,
        last_ns: impl Fn(Id) -> Option<i64>,
    ) -> Option<Id> {
        while let Some(Reverse(first)) = self.idle.peek().copied() {
            let is_over = is_over(self.bounds.idle_ns, Some(&first), now_ns);
            if !is_over && !is_full {
                return None;
            }
            self.idle.pop();
            let (checked_ns, id) = first;
            match last_ns(id) {
                // Active since: check again when it may have been idle for long enough.
                Some(last_ns) if last_ns > checked_ns => self.add(id, last_ns),
                Some(_) => {
                    // Of all that live, it has been idle for longest.
                    self.evicted += u64::from(!is_over);
                    return Some(id);
                }
                None => {}
            }
        }
        None
    }

    /// The next entry at the end of a capture, oldest first; it may have been removed before.
    pub fn drain(&mut self) -> Option<Id> {
        self.idle.pop().map(|Reverse((_, id))| id)
    }
}

/// Whether the first in a queue was idle for longer than `limit_ns` when it was checked.
fn is_over<Id>(limit_ns: i64, first: Option<&(i64, Id)>, now_ns: i64) -> bool {
    first.is_some_and(|(checked_ns, _)| checked_ns.saturating_add(limit_ns) < now_ns)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Entries by id, with the time of the last packet of each.
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

        /// All that are over by `now_ns`, in order.
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
