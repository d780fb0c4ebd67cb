//! The two clocks: the monotonic clock schedules work, the kernel's wall clock gives stamps.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Kernel time in nanoseconds since 1970, UTC.
pub type Stamp = i64;

/// Nanoseconds of the monotonic clock.
pub type Mono = u64;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Monotonic time since the start of the run.
#[derive(Clone, Copy)]
pub struct Clock(Instant);

/// Accuracy of the wall clock, in ns, at which [`Clock::start_by_wall`] stops trying.
const EXACT: Stamp = 100_000;

/// Most attempts to reach that accuracy.
const STARTS: usize = 100;

impl Clock {
    /// Starts a clock at 0. Also returns the wall clock at that moment. The returned time is never later than the
    /// real one, so that planned work does not happen too early. It is at most 100 us earlier, unless the
    /// machine is never that fast.
    pub fn start_by_wall() -> (Self, Stamp) {
        let between_two_looks = || {
            let (before, clock, after) = (wall(), Clock::start(), wall());
            ((after - before).abs(), clock, before)
        };
        let mut best = between_two_looks();
        for _ in 1..STARTS {
            if best.0 <= EXACT {
                break;
            }
            let next = between_two_looks();
            if next.0 < best.0 {
                best = next;
            }
        }
        (best.1, best.2)
    }

    /// Starts a clock at 0.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// Returns the nanoseconds since the start.
    pub fn now(self) -> Mono {
        self.0.elapsed().as_nanos() as Mono
    }
}

/// Returns the wall clock that the kernel's stamps use, in nanoseconds since 1970, UTC.
pub fn wall() -> Stamp {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |passed| passed.as_nanos() as Stamp)
}

/// Returns the arrival time, on the monotonic clock, of a datagram that the kernel stamped `at` and that is
/// read at `now`. The process may have been suspended in between. A change of the wall clock in between
/// falsifies the result, but it is never later than `now`.
pub fn came_at(at: Stamp, now: Mono) -> Mono {
    now.saturating_sub(u64::try_from(wall() - at).unwrap_or(0))
}

/// Returns a wait as a difference of stamps, at most `Stamp::MAX`.
pub fn as_stamp(wait: Mono) -> Stamp {
    Stamp::try_from(wait).unwrap_or(Stamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_starts_at_0_and_goes_on() {
        let clock = Clock::start();
        let first = clock.now();
        while clock.now() == first {}
        assert!(clock.now() > first);
    }

    #[test]
    fn a_clock_starts_not_before_the_wall_clock_that_comes_with_it() {
        for _ in 0..100 {
            let (earliest, (clock, start)) = (wall(), Clock::start_by_wall());
            let (passed, latest) = (clock.now(), wall());
            assert!(earliest <= start);
            // However long this thread was delayed, the clock is not ahead of the wall clock.
            assert!(start + as_stamp(passed) <= latest + 1_000, "{passed}");
        }
    }

    #[test]
    fn the_wall_clock_counts_nanoseconds_since_1970() {
        let (year_2020, year_2100) = (1_577_836_800, 4_102_444_800);
        assert!((year_2020..year_2100).contains(&(wall() / SECOND as Stamp)));
    }

    #[test]
    fn what_is_read_late_came_when_the_kernel_stamped_it() {
        let (second, now) = (SECOND as Stamp, 10 * SECOND);
        let before = Clock::start();
        let stamp = wall() - 3 * second;
        let came = came_at(stamp, now);
        let spent = before.now();
        assert!((7 * SECOND - spent..=7 * SECOND).contains(&came), "{came}");
        assert_eq!(came_at(wall() + 3600 * second, now), now);
        assert_eq!(came_at(wall() - 3600 * second, now), 0);
    }

    #[test]
    fn a_wait_that_no_stamp_can_hold_is_the_longest() {
        for (wait, expected) in [
            (0, 0),
            (7, 7),
            (1 << 63, Stamp::MAX),
            (u64::MAX, Stamp::MAX),
        ] {
            assert_eq!(as_stamp(wait), expected);
        }
    }
}
