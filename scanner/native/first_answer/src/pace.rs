//! Determines how many new probes are sent together. At low rates, wake-ups take nearly all CPU time, so a pass sends
//! several probes (docs/design/0016).

use firstflight_core::clock::{Mono, SECOND};
use firstflight_core::rate_limit::batch;

/// From this rate on, the clock starts the passes, and each pass handles several packets.
const BULK: f64 = 1_100.0;

/// Below [`BULK`]: the maximum number of new probes at a time, and their maximum share of a second's probes. After a
/// stall, a run may also exceed the rate by this number.
const MOST: f64 = 20.0;
const SHARE: f64 = 0.25;

/// Maximum time in seconds that the first probe in a group waits.
const LONGEST: f64 = 0.1;

/// Part of a second by which the ceilings may count too long, because they count whole parts.
const INEXACT: f64 = 0.01;

/// A run's pace.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: f64,
    /// Maximum number of new probes at a time. In any second, a run sends at most the rate plus this number.
    pub batch: u64,
    /// Usual number of new probes that are sent together.
    pub together: u64,
}

impl Pace {
    /// Creates the pace for `rate` new probes per second. The probes of 100 ms are sent together, at most nine. Twice
    /// as many fit into a batch, because a close for each probe is sent at the same time.
    pub fn new(rate: f64) -> Pace {
        let batch = batch(rate).max((rate * SHARE).min(MOST) as u64);
        let together = (batch as f64 - 1.0 - INEXACT * rate) / 2.0;
        let together = together.min(rate * LONGEST) as u64;
        Pace {
            rate,
            batch,
            together: together.max(1),
        }
    }

    /// Returns whether the rate is so high that a pass should handle several packets.
    pub fn in_bulk(&self) -> bool {
        self.rate >= BULK
    }

    /// Returns the time in which the probes that are sent together become due.
    pub fn gap(&self) -> Mono {
        (self.together as f64 * SECOND as f64 / self.rate) as Mono
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_leave_together_and_none_waits_for_longer_than_100_ms() {
        // bench/engines/kernel_alone.py has the number sent together at 50, 200, 500 and 1,000.
        for (rate, batch, together, in_bulk) in [
            (0.1, 1, 1, false),
            (1.0, 1, 1, false),
            (10.0, 2, 1, false),
            (20.0, 5, 1, false),
            (50.0, 12, 5, false),
            (80.0, 20, 8, false),
            (100.0, 20, 9, false),
            (200.0, 20, 8, false),
            (500.0, 20, 7, false),
            (1000.0, 20, 4, false),
            (2000.0, 20, 1, true),
            (100_000.0, 1000, 1, true),
        ] {
            let pace = Pace::new(rate);
            let found = (pace.batch, pace.together, pace.in_bulk());
            assert_eq!(found, (batch, together, in_bulk), "{rate}");
            let single = (SECOND as f64 / rate) as Mono;
            assert!(pace.gap() <= single.max(SECOND / 10), "{rate}");
        }
    }
}
