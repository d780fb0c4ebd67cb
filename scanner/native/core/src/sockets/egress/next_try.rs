//! The next step after the kernel refuses a datagram.

use std::io;

/// Most attempts while a device queue is full, 1 ms apart.
const PATIENCE: u32 = 200;

/// When to offer a refused datagram again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextTry {
    AtOnce,
    /// After a millisecond.
    Later,
    Never,
}

impl NextTry {
    /// Returns the next step after the kernel refused a datagram `tries` times, the last time with `error`.
    /// The first refusal may be about an earlier datagram.
    pub fn after(error: &io::Error, tries: u32) -> NextTry {
        match is_full(error) {
            true if tries < PATIENCE => NextTry::Later,
            false if tries == 1 => NextTry::AtOnce,
            _ => NextTry::Never,
        }
    }
}

/// Returns whether a send failed because a queue of this machine was full. A later attempt may succeed.
pub fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_is_waited_for_and_another_refusal_is_final_the_second_time() {
        for (error, tries, expected) in [
            (libc::EAGAIN, 1, NextTry::Later),
            (libc::ENOBUFS, PATIENCE - 1, NextTry::Later),
            (libc::ENOBUFS, PATIENCE, NextTry::Never),
            (libc::ECONNREFUSED, 1, NextTry::AtOnce),
            (libc::ECONNREFUSED, 2, NextTry::Never),
            (libc::EPERM, PATIENCE, NextTry::Never),
        ] {
            let error_of_kernel = io::Error::from_raw_os_error(error);
            assert_eq!(
                NextTry::after(&error_of_kernel, tries),
                expected,
                "{error} {tries}"
            );
        }
    }
}
