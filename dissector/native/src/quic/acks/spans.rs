//! Sets of packet numbers, stored as ranges.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Maximum number of ranges in a set; beyond it, the two lowest are joined, including the gap between them.
const MOST: usize = 1 << 14;

/// A set of packet numbers: first number of each range, and its last.
#[derive(Debug, Default)]
pub(super) struct Spans(BTreeMap<u64, u64>);

impl Spans {
    pub(super) fn add(&mut self, range: RangeInclusive<u64>) {
        let (mut start, mut end) = range.into_inner();
        // Join the range before or around the new one, and the ranges after the start.
        if let Some((&before, &last)) = self.0.range(..=start).next_back()
            && last.saturating_add(1) >= start
        {
            if last >= end {
                return;
            }
            start = before;
        }
        while let Some((&next, &last)) = self.0.range(start..=end.saturating_add(1)).next() {
            self.0.remove(&next);
            end = end.max(last);
        }
        self.0.insert(start, end);
        if self.0.len() > MOST {
            self.join_lowest();
        }
    }

    fn join_lowest(&mut self) {
        if let (Some((start, _)), Some((_, end))) = (self.0.pop_first(), self.0.pop_first()) {
            self.0.insert(start, end);
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let before = self.0.range(..=number).next_back();
        before.is_some_and(|(_, &last)| last >= number)
    }

    /// Number of packet numbers in the set.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start + 1).sum()
    }

    /// Number of packet numbers in the set but not in `other`.
    pub(super) fn without(&self, other: &Spans) -> u64 {
        let mut common = 0;
        let mut theirs = other.0.iter().peekable();
        for (&start, &end) in &self.0 {
            while let Some(&(&from, &to)) = theirs.peek() {
                if from > end {
                    break;
                }
                if to >= start {
                    common += to.min(end) - from.max(start) + 1;
                }
                if to > end {
                    break;
                }
                theirs.next();
            }
        }
        self.count() - common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(ranges: &[(u64, u64)]) -> Spans {
        let mut spans = Spans::default();
        for &(start, end) in ranges {
            spans.add(start..=end);
        }
        spans
    }

    #[test]
    fn ranges_that_touch_become_one() {
        for ranges in [
            &[(0, 4), (5, 9)][..],
            &[(5, 9), (0, 4)],
            &[(0, 0), (2, 9), (1, 1)],
            &[(0, 9), (3, 4)],
            &[(3, 4), (7, 7), (0, 9)],
            &[(0, 5), (3, 9)],
        ] {
            let found = spans(ranges);
            assert_eq!(found.0, BTreeMap::from([(0, 9)]), "{ranges:?}");
            assert_eq!(found.count(), 10);
        }
        let apart = spans(&[(7, 9), (0, 2), (4, 5)]);
        assert_eq!((apart.0.len(), apart.count()), (3, 8));
        assert!(
            apart.contains(9) && apart.contains(4) && !apart.contains(3) && !apart.contains(10)
        );
    }

    #[test]
    fn numbers_that_another_set_lacks_are_counted() {
        let acknowledged = spans(&[(0, 9), (20, 29), (40, 49)]);
        for (seen, lacking) in [
            (&[][..], 30),
            (&[(0, 100)], 0),
            (&[(5, 24)], 20),
            (&[(0, 0), (9, 9), (20, 20), (45, 60)], 22),
            (&[(10, 19), (30, 39)], 30),
        ] {
            assert_eq!(acknowledged.without(&spans(seen)), lacking, "{seen:?}");
        }
    }

    #[test]
    fn the_set_stays_bounded() {
        let mut many = Spans::default();
        for number in 0..2 * MOST as u64 {
            many.add(2 * number..=2 * number);
        }
        assert_eq!(many.0.len(), MOST);
        assert!(many.contains(1) && !many.contains(4 * MOST as u64 - 3));
        let mut end = Spans::default();
        end.add(u64::MAX..=u64::MAX);
        end.add(0..=u64::MAX);
        assert_eq!(end.0.len(), 1);
    }
}
