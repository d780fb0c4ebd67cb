//! What follows when the kernel does not take a datagram.

use std::io;

/// How often a full device queue is waited for, 1 ms each time.
const PATIENCE: u32 = 200;

/// When a datagram that the kernel did not take is offered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextTry {
    AtOnce,
    /// After a millisecond.
    Later,
    Never,
}

impl NextTry {
    /// Returns what follows when the kernel did not take a datagram `tries` times, the last time because of
    /// `error`. Its first refusal may be about an earlier datagram.
    pub fn after(error: &io::Error, tries: u32) -> NextTry {
        match is_full(error) {
            true if tries < PATIENCE => NextTry::Later,
            false if tries == 1 => NextTry::AtOnce,
            _ => NextTry::Never,
        }
    }
}

/// Returns whether a send failed because a queue of this machine was full: it is worth trying again a
/// little later.
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
