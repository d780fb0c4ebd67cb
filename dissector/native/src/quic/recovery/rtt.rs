//! Round-trip time and probe timeout as an endpoint computes them (RFC 9002 5, 6.2.1).

/// Granularity of the sender's clock (RFC 9002 6.1.2).
const GRANULARITY_NS: i64 = 1_000_000;

/// The estimator of RFC 9002 5.3; all times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rtt {
    pub latest_ns: i64,
    pub min_ns: i64,
    pub smoothed_ns: i64,
    pub variation_ns: i64,
    pub samples: u32,
}

impl Rtt {
    /// Adds a sample. `ack_delay_ns` is the peer's ACK Delay, or 0 to ignore it.
    pub fn sample(&mut self, latest_ns: i64, ack_delay_ns: i64) {
        self.latest_ns = latest_ns;
        self.samples = self.samples.saturating_add(1);
        if self.samples == 1 {
            self.min_ns = latest_ns;
            self.smoothed_ns = latest_ns;
            self.variation_ns = latest_ns / 2;
            return;
        }
        self.min_ns = self.min_ns.min(latest_ns);
        let is_plausible = latest_ns >= self.min_ns.saturating_add(ack_delay_ns);
        let adjusted = latest_ns - if is_plausible { ack_delay_ns } else { 0 };
        let deviation = (self.smoothed_ns - adjusted).abs();
        self.variation_ns = (3 * self.variation_ns + deviation) / 4;
        self.smoothed_ns = (7 * self.smoothed_ns + adjusted) / 8;
    }

    /// The probe timeout before back-off.
    pub fn pto_ns(&self, max_ack_delay_ns: i64) -> i64 {
        let spread = (4 * self.variation_ns).max(GRANULARITY_NS);
        self.smoothed_ns + spread + max_ack_delay_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn first_pto_is_three_times_the_first_sample() {
        let mut rtt = Rtt::default();
        rtt.sample(40 * MS, 30 * MS);
        assert_eq!(
            (rtt.min_ns, rtt.smoothed_ns, rtt.variation_ns),
            (40 * MS, 40 * MS, 20 * MS)
        );
        assert_eq!(rtt.pto_ns(0), 120 * MS);
        assert_eq!(rtt.pto_ns(25 * MS), 145 * MS);
    }

    #[test]
    fn delay_counts_unless_it_leads_below_the_minimum() {
        let mut rtt = Rtt::default();
        rtt.sample(40 * MS, 0);
        rtt.sample(56 * MS, 8 * MS);
        // Adjusted 48: srtt = 7/8 x 40 + 1/8 x 48, rttvar = 3/4 x 20 + 1/4 x 8.
        assert_eq!((rtt.smoothed_ns, rtt.variation_ns), (41 * MS, 17 * MS));
        let before = rtt;
        rtt.sample(41 * MS, 8 * MS);
        assert_eq!(rtt.smoothed_ns, before.smoothed_ns);
        assert_eq!(rtt.min_ns, 40 * MS);
    }

    #[test]
    fn a_steady_path_keeps_the_granularity() {
        let mut rtt = Rtt::default();
        for _ in 0..100 {
            rtt.sample(MS, 0);
        }
        assert_eq!(rtt.pto_ns(0), 2 * MS);
    }

    #[test]
    fn a_delay_that_leads_just_to_the_minimum_counts() {
        for (latest, delay, smoothed, variation) in [
            // Adjusted 400.
            (480, 80, 400, 150),
            // Below the minimum by one, so that the delay is ignored.
            (479, 80, 409, 169),
            (400, 0, 400, 150),
        ] {
            let mut rtt = Rtt::default();
            rtt.sample(400, 0);
            rtt.sample(latest, delay);
            assert_eq!(
                (rtt.latest_ns, rtt.min_ns, rtt.smoothed_ns, rtt.variation_ns),
                (latest, 400, smoothed, variation)
            );
        }
    }

    #[test]
    fn the_minimum_follows_the_shortest_sample() {
        let mut rtt = Rtt::default();
        for (latest, min) in [(40, 40), (50, 40), (30, 30), (35, 30)] {
            rtt.sample(latest, 0);
            assert_eq!((rtt.latest_ns, rtt.min_ns), (latest, min));
        }
        assert_eq!(rtt.samples, 4);
    }

    #[test]
    fn the_probe_timeout_is_spread_by_four_variations_and_a_millisecond_at_least() {
        for (variation, spread) in [(0, 1_000_000), (250_000, 1_000_000), (250_001, 1_000_004)] {
            let rtt = Rtt {
                smoothed_ns: 7,
                variation_ns: variation,
                ..Rtt::default()
            };
            assert_eq!(rtt.pto_ns(100), 7 + spread + 100, "{variation}");
        }
    }
}
