//! The limit of open descriptors.

use crate::Failure;

/// Descriptors for all other purposes than connections.
const OTHERS: u64 = 64;

/// Raises the limit of open descriptors as far as the system permits. Returns how many connections fit.
pub fn raise_limit() -> Result<usize, Failure> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is the structure that the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            ..limit
        };
        // SAFETY: `raised` is a whole structure, which the call only reads.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
    }
    match limit.rlim_cur.saturating_sub(OTHERS) {
        0 => Err(Failure::Usage(format!(
            "this process may have only {} open files: raise the limit (ulimit -n)",
            limit.rlim_cur
        ))),
        most => Ok(usize::try_from(most).unwrap_or(usize::MAX)),
    }
}
