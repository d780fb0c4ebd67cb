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

impl Clock {
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

/// Returns a wait as a difference of stamps.
pub fn as_stamp(wait: Mono) -> Stamp {
    Stamp::try_from(wait).unwrap_or(Stamp::MAX)
}
