//! Limits that several vantage points share. Only one vantage point at a time may probe a prefix, so that all
//! vantage points together keep the limits of the prefix without communication.
//!
//! Time (UTC) is divided into turns of equal length. In each turn, a prefix belongs to one vantage point; in
//! the next turn, it belongs to the next vantage point. A fixed hash of the prefix selects the first. The
//! last part of each turn is a pause, in which nobody probes the prefix. The pause covers the difference
//! between the vantage points' clocks and the packets in flight. See docs/design/0008-limits-of-all.md.

use std::net::IpAddr;

use crate::clock::Mono;
use crate::clock::Stamp;

/// A vantage point's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLimits {
    /// Index of this vantage point, from 0, and number of vantage points.
    pub index: u64,
    pub of: u64,
    /// Length of a turn, and of the pause at the end, ns.
    pub length: u64,
    pub pause: u64,
}

/// When a vantage point may probe each prefix, on the clock of this run.
#[derive(Clone, Copy, Debug)]
pub struct SharedWindows {
    limits: SharedLimits,
    /// UTC at monotonic time 0, ns.
    start: u64,
}

impl SharedLimits {
    /// Returns a run's windows. `start`: UTC time, in ns, at which its monotonic clock was 0.
    pub fn on_clock(self, start: Stamp) -> SharedWindows {
        SharedWindows {
            limits: self,
            start: u64::try_from(start).unwrap_or(0),
        }
    }
}

impl SharedWindows {
    /// Returns the first time at or after `now` at which `prefix` may be probed.
    pub fn allowed_from(&self, prefix: IpAddr, now: Mono) -> Mono {
        let SharedLimits {
            index,
            of,
            length,
            pause,
        } = self.limits;
        let utc = self.start + now;
        let turn = utc / length;
        let ours = (index + of - (turn + hash(prefix)) % of) % of;
        if ours == 0 && utc % length < length - pause {
            return now;
        }
        let turns_to_wait = if ours == 0 { of } else { ours };
        (turn + turns_to_wait) * length - self.start
    }
}

/// A hash that is the same in every version and at every vantage point (FNV-1a over the bytes of the
/// address).
fn hash(prefix: IpAddr) -> u64 {
    let fold = |bytes: &[u8]| {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    let hash = match prefix {
        IpAddr::V4(ip) => fold(&ip.octets()),
        IpAddr::V6(ip) => fold(&ip.octets()),
    };
    // The low bits of FNV depend only on the low bits of the bytes.
    (hash ^ hash >> 32) % (1 << 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    #[test]
    fn nobody_probes_a_prefix_beside_another_or_in_the_pause() {
        let start = 1_795_154_400_123_456_789;
        let mut hours = [0_u64; 4];
        for prefix in ["192.0.2.0", "198.18.48.0", "2001:db8:48::", "10.0.0.0"] {
            let prefix: IpAddr = prefix.parse().unwrap();
            let mut last: Option<(usize, u64)> = None;
            for tenth in 0..3000_u64 {
                let now = tenth * SECOND / 10;
                let open: Vec<usize> = (0..4)
                    .filter(|index| {
                        let limits = SharedLimits {
                            index: *index as u64,
                            of: 4,
                            length: 15 * SECOND,
                            pause: 3 * SECOND,
                        };
                        limits.on_clock(start).allowed_from(prefix, now) == now
                    })
                    .collect();
                assert!(open.len() <= 1);
                if let [index] = open[..] {
                    if let Some((before, at)) = last.filter(|(before, _)| *before != index) {
                        assert!(now - at > 2 * SECOND, "{before} {index}");
                    }
                    last = Some((index, now));
                    hours[index] += 1;
                }
            }
        }
        // In every 15 seconds, 12 are open, and each vantage point has a quarter of that time.
        assert!(
            hours.iter().all(|tenths| (2300..2500).contains(tenths)),
            "{hours:?}"
        );
    }

    #[test]
    fn the_first_allowed_moment_is_found() {
        let limits = SharedLimits {
            index: 1,
            of: 3,
            length: 10 * SECOND,
            pause: 2 * SECOND,
        };
        let clocked = limits.on_clock(1_795_154_400_000_000_000);
        let prefix: IpAddr = "192.0.2.0".parse().unwrap();
        for second in 0..200 {
            let now = second * SECOND;
            let from = clocked.allowed_from(prefix, now);
            assert!(from >= now && from <= now + 30 * SECOND);
            assert_eq!(clocked.allowed_from(prefix, from), from);
            assert!(from == now || clocked.allowed_from(prefix, from - 1) == from);
        }
        let alone = SharedLimits {
            index: 0,
            of: 1,
            length: SECOND,
            pause: 0,
        };
        assert_eq!(alone.on_clock(5).allowed_from(prefix, 77), 77);
    }
}
