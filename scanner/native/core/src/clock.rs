//! The two clocks: monotonic for when to do something, the kernel's wall clock for stamps.

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

/// The wall clock is known this exactly when a clock starts, in ns.
const EXACT: Stamp = 100_000;

/// So often a clock is started for that.
const STARTS: usize = 100;

impl Clock {
    /// Starts at 0. Returns the wall clock of that moment, too: not later than it was, so that nothing that is
    /// planned by it happens too early, and at most 100 us earlier, unless the machine is never that fast.
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

    /// Starts at 0.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// Returns the nanoseconds since the start.
    pub fn now(self) -> Mono {
        self.0.elapsed().as_nanos() as Mono
    }
}

/// Returns nanoseconds since 1970, UTC, of the clock that the kernel's stamps come from.
pub fn wall() -> Stamp {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |passed| passed.as_nanos() as Stamp)
}

/// Returns when on the monotonic clock that came which the kernel stamped `at` and which is read at `now`: the
/// process may have been suspended since. A clock that is set meanwhile is no measure: nothing came later than
/// it is read.
pub fn came_at(at: Stamp, now: Mono) -> Mono {
    now.saturating_sub(u64::try_from(wall() - at).unwrap_or(0))
}

/// Returns a wait as a difference of stamps.
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
            // Whatever held this thread up in between, the clock is not ahead of the wall clock.
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
