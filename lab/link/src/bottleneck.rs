//! A bottleneck: a line with a fixed rate and a drop-tail queue, in virtual time.
//!
//! It uses no clock and does not sleep: it computes a packet's departure directly from the arrival.

use std::collections::VecDeque;
use std::num::NonZeroU64;

/// Nanoseconds per byte at one bit per second.
const BYTE_NS: u64 = 8 * 1_000_000_000;

/// Maximum numbers of packets and bytes of IP in the queue, including the packet in transmission; `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    pub packets: Option<NonZeroU64>,
    pub bytes: Option<NonZeroU64>,
}

/// One direction on a path, or on a host's access link.
#[derive(Debug)]
pub struct Bottleneck {
    rate_bps: u64,
    limits: Limits,
    /// The line is free after `free_ns` and `remainder` / `rate_bps` nanoseconds. The remainder keeps rounding
    /// errors from adding up.
    free_ns: u64,
    remainder: u64,
    /// (departure of the last bit, bytes) of the packets in the queue, in order.
    inside: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl Bottleneck {
    /// Returns an idle line of `rate_bps` bits per second (at most `MAX_RATE_BPS`).
    pub fn new(rate_bps: NonZeroU64, limits: Limits) -> Self {
        Self {
            rate_bps: rate_bps.get(),
            limits,
            free_ns: 0,
            remainder: 0,
            inside: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Adds a packet of `length` bytes that arrives at `arrived_ns`.
    ///
    /// Returns the nanoseconds from the arrival until the last bit leaves, rounded up: the wait for earlier packets
    /// plus its transmission. Returns `None` if the queue is full; the packet is then dropped.
    pub fn admit(&mut self, arrived_ns: u64, length: u16) -> Option<u64> {
        while let Some(&(leaves_ns, bytes)) = self.inside.front()
            && leaves_ns <= arrived_ns
        {
            self.inside.pop_front();
            self.bytes -= bytes;
        }
        let length = u64::from(length);
        let packets = self.inside.len() as u64 + 1;
        let bytes = self.bytes + length;
        let full =
            |limit: Option<NonZeroU64>, now: u64| limit.is_some_and(|limit| now > limit.get());
        if full(self.limits.packets, packets) || full(self.limits.bytes, bytes) {
            return None;
        }
        if arrived_ns > self.free_ns {
            (self.free_ns, self.remainder) = (arrived_ns, 0);
        }
        let transmission = length * BYTE_NS + self.remainder;
        self.free_ns += transmission / self.rate_bps;
        self.remainder = transmission % self.rate_bps;
        let leaves_ns = self.free_ns + u64::from(self.remainder > 0);
        self.inside.push_back((leaves_ns, length));
        self.bytes = bytes;
        Some(leaves_ns - arrived_ns)
    }
}

/// Maximum rate. It is far above the rate of any machine, and no sum in `admit` overflows.
pub const MAX_RATE_BPS: u64 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    fn line(rate_bps: u64, packets: u64, bytes: u64) -> Bottleneck {
        let rate = NonZeroU64::new(rate_bps).expect("not zero");
        let limits = Limits {
            packets: NonZeroU64::new(packets),
            bytes: NonZeroU64::new(bytes),
        };
        Bottleneck::new(rate, limits)
    }

    /// (name, rate, limit of packets, limit of bytes (0: no limit), arrivals and lengths, waits)
    type Case<'a> = (&'a str, u64, u64, u64, &'a [(u64, u16)], &'a [Option<u64>]);

    #[test]
    fn waits_and_drops() {
        let cases: &[Case<'_>] = &[
            (
                "an idle line transmits at once",
                20 * MBIT,
                9,
                0,
                &[(1_000, 1500), (1_000_000, 40), (2_000_000, 1500)],
                &[Some(600_000), Some(16_000), Some(600_000)],
            ),
            (
                "a burst leaves at the rate, in its order",
                8 * MBIT,
                9,
                0,
                &[(0, 1000), (0, 500), (10, 1000)],
                &[Some(1_000_000), Some(1_500_000), Some(2_499_990)],
            ),
            (
                "a packet that arrives as the last bit leaves finds the line free",
                8 * MBIT,
                1,
                0,
                &[(0, 1000), (999_999, 1000), (1_000_000, 1000)],
                &[Some(1_000_000), None, Some(1_000_000)],
            ),
            (
                "packets: the one in transmission counts",
                8 * MBIT,
                2,
                0,
                &[(0, 100), (0, 100), (0, 100), (100_000, 100), (100_000, 1)],
                &[Some(100_000), Some(200_000), None, Some(200_000), None],
            ),
            (
                "bytes: exactly full is allowed, one more is not; a small one behind a dropped one may fit",
                8 * MBIT,
                0,
                3000,
                &[(0, 1500), (0, 1000), (0, 501), (0, 500), (0, 1)],
                &[
                    Some(1_500_000),
                    Some(2_500_000),
                    None,
                    Some(3_000_000),
                    None,
                ],
            ),
            (
                "both limits: whichever is reached first",
                8 * MBIT,
                3,
                2000,
                &[(0, 1500), (0, 1500), (0, 250), (0, 250), (0, 1)],
                &[
                    Some(1_500_000),
                    None,
                    Some(1_750_000),
                    Some(2_000_000),
                    None,
                ],
            ),
            (
                "a dropped packet takes no time of the line",
                8 * MBIT,
                1,
                0,
                &[(0, 1000), (1, 1000), (2, 1000), (1_000_000, 1000)],
                &[Some(1_000_000), None, None, Some(1_000_000)],
            ),
            (
                "an arrival stamped before the one ahead of it leaves behind it",
                8 * MBIT,
                9,
                0,
                &[(1_000, 1000), (900, 1000)],
                &[Some(1_000_000), Some(2_000_100)],
            ),
        ];
        for (what, rate, packets, bytes, arrivals, waits) in cases {
            let mut line = line(*rate, *packets, *bytes);
            let found: Vec<_> = arrivals
                .iter()
                .map(|&(at, length)| line.admit(at, length))
                .collect();
            assert_eq!(found, *waits, "{what}");
        }
    }

    #[test]
    fn fractions_of_a_nanosecond_add_up() {
        // 1 byte at 3 Gbit/s takes 2 2/3 ns: rounded up for each packet, exact for three.
        let mut line = line(3_000 * MBIT, 99, 0);
        let waits: Vec<_> = (0..6).filter_map(|_| line.admit(0, 1)).collect();
        assert_eq!(waits, [3, 6, 8, 11, 14, 16]);
        assert_eq!(line.admit(100, 1), Some(3), "an idle line starts anew");
    }

    #[test]
    fn a_full_queue_delivers_the_rate_and_drops_the_rest() {
        // Arrivals at 100 Mbit/s on a line of 10 Mbit/s: when the queue is full, one packet in ten passes, and the
        // line is never idle.
        let mut line = line(10 * MBIT, 20, 0);
        let mut last_ns = 0;
        let mut passed = 0;
        for number in 0..10_000_u64 {
            let at = number * 100_000;
            if let Some(wait) = line.admit(at, 1250) {
                assert!(wait <= 20 * 1_000_000, "no longer than a full queue");
                passed += 1;
                assert_eq!(at + wait, passed * 1_000_000, "at the rate, in order");
                last_ns = at + wait;
            }
        }
        assert_eq!(passed, 1_000 + 19);
        assert_eq!(last_ns, 1_019_000_000);
    }

    #[test]
    fn limits_of_the_numbers() {
        let mut slow = line(1, 0, u64::MAX);
        let mut fast = line(MAX_RATE_BPS, 0, u64::MAX);
        let now = 2_000_000_000_000_000_000; // in the year 2033
        for count in 1..=1_000 {
            assert_eq!(
                slow.admit(now, u16::MAX),
                Some(count * 65_535 * 8_000_000_000)
            );
            assert_eq!(
                fast.admit(now, u16::MAX),
                Some((count * 65_535 * 8).div_ceil(1_000))
            );
        }
    }
}
