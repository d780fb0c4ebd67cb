//! Exact counts in bounded memory: gaps at fixed points of their distribution, and packets by length.

use std::collections::BTreeMap;

/// Distance between two points.
pub const STEP_NS: i64 = 10_000;
/// Index of the last point, which is at 2 ms; the first is 0.
pub const LAST_POINT: u16 = 200;

/// Number of gaps that are at most as long as each point.
#[derive(Clone, Debug, Default)]
pub struct GapPoints(BTreeMap<u16, u64>);

impl GapPoints {
    /// Counts a gap at the first point that is not below it; a negative gap at 0.
    pub fn add(&mut self, gap_ns: i64) {
        let point = (gap_ns.max(0) as u64).div_ceil(STEP_NS as u64);
        if point <= u64::from(LAST_POINT) {
            *self.0.entry(point as u16).or_default() += 1;
        }
    }

    /// Number of gaps up to each point, both included, from 0 to `LAST_POINT`.
    pub fn cumulative(&self) -> Vec<i64> {
        let mut sum = 0;
        (0..=LAST_POINT)
            .map(|point| {
                sum += self.0.get(&point).map_or(0, |&gaps| gaps as i64);
                sum
            })
            .collect()
    }
}

/// Number of packets by length; `None` once there were too many lengths.
#[derive(Clone, Debug)]
pub struct Lengths(Option<BTreeMap<u64, u64>>);

impl Default for Lengths {
    fn default() -> Self {
        Lengths(Some(BTreeMap::new()))
    }
}

impl Lengths {
    pub fn add(&mut self, bytes: u64) {
        if let Some(counts) = &mut self.0 {
            *counts.entry(bytes).or_default() += 1;
        }
    }

    /// Number of distinct lengths.
    pub fn kept(&self) -> usize {
        self.0.as_ref().map_or(0, BTreeMap::len)
    }

    /// Drops the counts, to bound memory.
    pub fn give_up(&mut self) {
        self.0 = None;
    }

    /// The most frequent length and its number of packets. Among equally frequent lengths, the longest.
    pub fn mode(&self) -> Option<(u64, u64)> {
        let counts = self.0.as_ref()?;
        let (&bytes, &packets) = counts.iter().max_by_key(|&(_, packets)| packets)?;
        Some((bytes, packets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_from_the_point_that_it_does_not_exceed() {
        // Gap in nanoseconds, first point that counts it.
        let cases = [
            (i64::MIN, Some(0)),
            (-1, Some(0)),
            (0, Some(0)),
            (1, Some(1)),
            (10_000, Some(1)),
            (10_001, Some(2)),
            (1_990_001, Some(200)),
            (2_000_000, Some(200)),
            (2_000_001, None),
            (i64::MAX, None),
        ];
        for (gap, first) in cases {
            let mut points = GapPoints::default();
            points.add(gap);
            let counts = points.cumulative();
            assert_eq!(counts.len(), 201);
            assert_eq!(counts.iter().position(|&n| n == 1), first, "{gap}");
        }
    }

    #[test]
    fn points_add_up() {
        let mut points = GapPoints::default();
        [0, 5, 10_000, 15_000, 3_000_000]
            .into_iter()
            .for_each(|gap| points.add(gap));
        let counts = points.cumulative();
        assert_eq!(counts[..3], [1, 3, 4]);
        assert_eq!(counts[200], 4);
    }

    #[test]
    fn the_mode_is_the_most_frequent_length_then_the_longest() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.mode(), None);
        for bytes in [40, 1500, 40, 1500, 60] {
            lengths.add(bytes);
        }
        assert_eq!((lengths.mode(), lengths.kept()), (Some((1500, 2)), 3));
        lengths.add(40);
        assert_eq!(lengths.mode(), Some((40, 3)));
        lengths.give_up();
        lengths.add(40);
        assert_eq!((lengths.mode(), lengths.kept()), (None, 0));
    }
}
