//! Time: the clock that the kernel stamps packets with.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970, UTC: CLOCK_REALTIME, as in the ring's receive stamps.
pub fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|time| u64::try_from(time.as_nanos()).ok())
        .unwrap_or(0)
}

/// Lets this thread (not its children) run before all ordinary ones; returns whether that was allowed.
pub fn run_first() -> bool {
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: a plain struct that outlives the call; 0 is the calling thread.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &priority) == 0
    }
}

/// Makes timers of this thread fire when they are due, not up to 50 us later.
pub fn sharpen_timers() {
    // SAFETY: no pointers. Failure would only make us later, which the log shows.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}
