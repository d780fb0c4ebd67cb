//! Quantiles of durations in bounded memory: exact up to a number of values, then from a histogram with buckets that
//! are 1/128 of their value wide.

use std::collections::BTreeMap;

/// Bits in a value, after the leading one, that determine the bucket.
const PRECISION: u32 = 7;

/// A set of durations in nanoseconds.
#[derive(Clone, Debug)]
pub struct Durations {
    kept: Kept,
    count: u64,
    sum: i128,
    min: i64,
    max: i64,
}

#[derive(Clone, Debug)]
enum Kept {
    All(Vec<i64>),
    Buckets(BTreeMap<u16, u64>),
}

impl Default for Durations {
    fn default() -> Self {
        Durations {
            kept: Kept::All(Vec::new()),
            count: 0,
            sum: 0,
            min: i64::MAX,
            max: i64::MIN,
        }
    }
}

impl Durations {
    pub fn add(&mut self, value: i64) {
        self.count += 1;
        self.sum += i128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        match &mut self.kept {
            Kept::All(values) => values.push(value),
            Kept::Buckets(counts) => *counts.entry(bucket(value)).or_default() += 1,
        }
    }

    /// Number of individually kept values.
    pub fn kept(&self) -> usize {
        match &self.kept {
            Kept::All(values) => values.len(),
            Kept::Buckets(_) => 0,
        }
    }

    /// Switches to buckets; negative values count as 0.
    pub fn compress(&mut self) {
        if let Kept::All(values) = &self.kept {
            let mut counts = BTreeMap::new();
            for &value in values {
                *counts.entry(bucket(value)).or_default() += 1;
            }
            self.kept = Kept::Buckets(counts);
        }
    }

    /// Whether quantiles are exact.
    pub fn is_exact(&self) -> bool {
        matches!(self.kept, Kept::All(_))
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn min(&self) -> Option<i64> {
        (self.count > 0).then_some(self.min)
    }

    pub fn max(&self) -> Option<i64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, rounded down.
    pub fn mean(&self) -> Option<i64> {
        (self.count > 0)
            .then(|| self.sum.div_euclid(i128::from(self.count)))
            .and_then(|mean| i64::try_from(mean).ok())
    }

    /// Quantiles at `shares` (0 to 1), by linear interpolation between neighbours, rounded down; `None` without values.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Option<i64>; N] {
        let last = self.count.saturating_sub(1);
        let sorted = match &self.kept {
            Kept::All(values) => {
                let mut values = values.clone();
                values.sort_unstable();
                Some(values)
            }
            Kept::Buckets(_) => None,
        };
        shares.map(|share| {
            if self.count == 0 {
                return None;
            }
            let place = share * last as f64;
            let below = (place as u64).min(last);
            let at = |rank: u64| match (&sorted, &self.kept) {
                (Some(values), _) => values.get(rank as usize).copied().unwrap_or(self.max),
                (None, Kept::Buckets(counts)) => self.in_buckets(counts, rank),
                (None, Kept::All(_)) => self.max,
            };
            let (low, high) = (at(below), at((below + 1).min(last)));
            Some(low + ((high - low) as f64 * (place - below as f64)).floor() as i64)
        })
    }

    fn in_buckets(&self, counts: &BTreeMap<u16, u64>, rank: u64) -> i64 {
        let mut passed = 0;
        for (&index, &n) in counts {
            passed += n;
            if passed > rank {
                return middle(index).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

/// Values below 256 have a bucket each; above, 128 buckets share each power of two.
fn bucket(value: i64) -> u16 {
    let value = value.max(0) as u64;
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(PRECISION + 1);
    ((shift << PRECISION) + (value >> shift) as u32) as u16
}

/// The middle of a bucket.
fn middle(index: u16) -> i64 {
    let index = u64::from(index);
    let shift = (index >> PRECISION).saturating_sub(1);
    let value = index - (shift << PRECISION);
    ((value << shift) + ((1 << shift) >> 1)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_quantiles_interpolate() {
        let mut d = Durations::default();
        assert_eq!(d.quantiles([0.5]), [None]);
        for value in [40, 10, 30, 20] {
            d.add(value);
        }
        assert_eq!(
            d.quantiles([0.0, 0.5, 0.9, 1.0]),
            [Some(10), Some(25), Some(37), Some(40)]
        );
        assert_eq!((d.mean(), d.min(), d.max()), (Some(25), Some(10), Some(40)));
    }

    #[test]
    fn buckets_are_near() {
        let mut exact = Durations::default();
        let mut value = 3_i64;
        for _ in 0..10_000 {
            value = (value * 48_271) % 2_147_483_647;
            exact.add(value % 50_000_000);
        }
        let mut near = exact.clone();
        near.compress();
        assert!(!near.is_exact() && near.kept() == 0);
        let shares = [0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0];
        for (a, b) in exact
            .quantiles(shares)
            .into_iter()
            .zip(near.quantiles(shares))
        {
            let (a, b) = (a.unwrap() as f64, b.unwrap() as f64);
            assert!((a - b).abs() <= a / 128.0 + 1.0, "{a} {b}");
        }
        assert_eq!(near.mean(), exact.mean());
    }

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..63).flat_map(|n| [(1_i64 << n) - 1, 1 << n, (1 << n) + 1]) {
            let near = middle(bucket(value));
            assert!((near - value).abs() <= value / 256 + 1, "{value} {near}");
        }
        assert_eq!(bucket(-5), 0);
        assert_eq!(bucket(i64::MAX), (55 << PRECISION) + 255);
    }
}
