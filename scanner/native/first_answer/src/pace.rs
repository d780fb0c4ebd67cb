//! How many new probes leave together. At low rates nearly all CPU time goes into waking up, so that a pass has
//! several probes to send (docs/design/0016).

use firstflight_core::clock::{Mono, SECOND};
use firstflight_core::rate_limit::batch;

/// Above this rate packets are handled several at a time, in passes that the clock begins.
const BULK: f64 = 1_100.0;

/// Most new probes at once below [`BULK`], and the share of a second's that they may be: by so much a run may
/// also be faster after a stall.
const MOST: f64 = 20.0;
const SHARE: f64 = 0.25;

/// Seconds for which the first of those that leave together waits at most.
const LONGEST: f64 = 0.1;

/// Parts of a second by which the ceilings may count too long: they count whole parts.
const INEXACT: f64 = 0.01;

/// The pace of a run.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: f64,
    /// Most new probes that may leave at once: in any second no more than the rate and these.
    pub batch: u64,
    /// So many leave together as a rule.
    pub together: u64,
}

impl Pace {
    /// The pace of `rate` new probes per second: those of 100 ms leave together, nine at most. Twice as many fit
    /// into a batch, since a close for each leaves at the same time.
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

    /// Returns whether so much is sent that packets are better handled several at a time.
    pub fn in_bulk(&self) -> bool {
        self.rate >= BULK
    }

    /// Returns in which time those that leave together are due.
    pub fn gap(&self) -> Mono {
        (self.together as f64 * SECOND as f64 / self.rate) as Mono
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_leave_together_and_none_waits_for_longer_than_100_ms() {
        // bench/low_rates.py has how many leave together at 50, 200, 500 and 1,000.
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
