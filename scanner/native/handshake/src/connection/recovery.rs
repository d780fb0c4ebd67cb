//! Round-trip times and probe time-outs (RFC 9002 5, 6.2).
//!
//! A connection sends two or three flights that fit a datagram or two, so lost packets are found by the probe
//! time-out alone; packet and time thresholds (RFC 9002 6.1) would find nothing earlier. It is longer than a
//! client's that is in a hurry: a server that takes its time, or will never answer, gets few datagrams.

use firstflight_core::clock::Mono;

const MILLISECOND: Mono = 1_000_000;

/// Assumed before the first sample (RFC 9002 6.2.2).
const INITIAL_RTT: Mono = 333 * MILLISECOND;

/// Granularity of timers (RFC 9002 6.1.2).
const GRANULARITY: Mono = MILLISECOND;

/// Shortest probe time-out, so that a near server is sent no more than a far one.
const SHORTEST: Mono = 100 * MILLISECOND;

/// Beyond it the time-out does not grow.
const MOST_BACKOFF: u32 = 10;

/// The estimate of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    /// Smoothed round-trip time and its variation, once there is a sample.
    estimate: Option<(Mono, Mono)>,
    /// Probe time-outs since the last acknowledgement.
    backoff: u32,
}

impl Recovery {
    /// Takes a round-trip time (RFC 9002 5.3).
    pub fn sample(&mut self, rtt: Mono) {
        self.estimate = Some(match self.estimate {
            None => (rtt, rtt / 2),
            Some((smoothed, variation)) => (
                (7 * smoothed + rtt) / 8,
                (3 * variation + smoothed.abs_diff(rtt)) / 4,
            ),
        });
    }

    /// Something new was acknowledged.
    pub fn acknowledged(&mut self) {
        self.backoff = 0;
    }

    /// A probe time-out has passed.
    pub fn expired(&mut self) {
        self.backoff += 1;
    }

    /// Returns the time from the last ack-eliciting packet to the next probe. `max_ack_delay`: of the server,
    /// in the application space.
    pub fn probe_timeout(&self, max_ack_delay: Mono) -> Mono {
        let (smoothed, variation) = self.estimate.unwrap_or((INITIAL_RTT, INITIAL_RTT / 2));
        let base = smoothed + (4 * variation).max(GRANULARITY) + max_ack_delay;
        base.max(SHORTEST) << self.backoff.min(MOST_BACKOFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Mono = MILLISECOND;

    #[test]
    fn the_first_probe_comes_after_three_initial_round_trips_and_then_twice_as_late_each_time() {
        let mut recovery = Recovery::default();
        assert_eq!(recovery.probe_timeout(0), 999 * MS);
        for doubled in 1..=12 {
            recovery.expired();
            assert_eq!(recovery.probe_timeout(0), (999 * MS) << doubled.min(10));
        }
        recovery.acknowledged();
        assert_eq!(recovery.probe_timeout(0), 999 * MS);
    }

    #[test]
    fn samples_are_smoothed() {
        let mut recovery = Recovery::default();
        recovery.sample(80 * MS);
        assert_eq!(recovery.estimate, Some((80 * MS, 40 * MS)));
        assert_eq!(recovery.probe_timeout(25 * MS), (80 + 160 + 25) * MS);
        recovery.sample(160 * MS);
        assert_eq!(recovery.estimate, Some((90 * MS, 50 * MS)));
        recovery.estimate = Some((MS, 0));
        assert_eq!(recovery.probe_timeout(0), 100 * MS, "a near server");
        recovery.estimate = Some((100 * MS, 0));
        assert_eq!(recovery.probe_timeout(0), 101 * MS, "granularity");
    }
}
