//! Round-trip times and probe timeouts (RFC 9002 5, 6.2).
//!
//! A connection sends two or three flights with one or two datagrams. Only the probe timeout detects lost packets;
//! packet and time thresholds (RFC 9002 6.1) would not detect them earlier. The timeout is longer than in a client that
//! needs low latency, so that a slow or silent server receives few datagrams.

use firstflight_core::clock::Mono;

const MILLISECOND: Mono = 1_000_000;

/// Assumed before the first sample (RFC 9002 6.2.2).
const INITIAL_RTT: Mono = 333 * MILLISECOND;

/// Granularity of timers (RFC 9002 6.1.2).
const GRANULARITY: Mono = MILLISECOND;

/// Shortest probe timeout, so that a near server receives no more datagrams than a distant one.
const SHORTEST: Mono = 100 * MILLISECOND;

/// Number of consecutive timeouts after which the timeout no longer grows.
const MOST_BACKOFF: u32 = 10;

/// Round-trip time estimate for a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    /// Smoothed round-trip time and variation, once there is a sample.
    estimate: Option<(Mono, Mono)>,
    /// Number of probe timeouts since the last acknowledgement.
    backoff: u32,
}

impl Recovery {
    /// Adds a sample of the round-trip time (RFC 9002 5.3).
    pub fn sample(&mut self, rtt: Mono) {
        self.estimate = Some(match self.estimate {
            None => (rtt, rtt / 2),
            Some((smoothed, variation)) => (
                (7 * smoothed + rtt) / 8,
                (3 * variation + smoothed.abs_diff(rtt)) / 4,
            ),
        });
    }

    /// Resets the backoff, because the server acknowledged a new packet.
    pub fn acknowledged(&mut self) {
        self.backoff = 0;
    }

    /// Counts a probe timeout.
    pub fn expired(&mut self) {
        self.backoff += 1;
    }

    /// Returns the time from the last ack-eliciting packet to the next probe. `max_ack_delay` is the server's value in
    /// the application data space, and 0 before.
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
