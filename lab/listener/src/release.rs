//! A queue of values with due times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// A queue of values, ordered by due time.
#[derive(Debug)]
pub struct Releases<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    // Values with equal times leave in the order of their insertion.
    order: u64,
    value: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<T> Default for Releases<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            pushed: 0,
        }
    }
}

impl<T> Releases<T> {
    pub fn push(&mut self, at: Instant, value: T) {
        self.heap.push(Reverse(Entry {
            at,
            order: self.pushed,
            value,
        }));
        self.pushed += 1;
    }

    /// Returns the time of the next value.
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Removes the earliest value if it is due at `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn values_come_when_due_and_in_order() {
        let start = Instant::now();
        let ms = Duration::from_millis(1);
        let mut releases = Releases::default();
        releases.push(start + 2 * ms, "late");
        releases.push(start + ms, "first");
        releases.push(start + ms, "second");
        assert_eq!(releases.pop_due(start), None);
        assert_eq!(releases.next_at(), Some(start + ms));
        assert_eq!(releases.pop_due(start + ms), Some("first"));
        assert_eq!(releases.pop_due(start + ms), Some("second"));
        assert_eq!(releases.pop_due(start + ms), None);
        assert_eq!(releases.pop_due(start + 9 * ms), Some("late"));
        assert_eq!(releases.next_at(), None);
    }
}
