//! SIGINT and SIGTERM. After the first signal the run stops gracefully; after the second it stops immediately.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Failure;

/// Flags that the signals set.
#[derive(Clone, Default)]
pub struct Signals {
    first: Arc<AtomicBool>,
    second: Arc<AtomicBool>,
}

impl Signals {
    /// Catches the signals from now on.
    pub fn catch() -> Result<Signals, Failure> {
        let signals = Signals::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signals
                .register(signal)
                .map_err(|e| Failure::Usage(format!("signals cannot be caught: {e}")))?;
        }
        Ok(signals)
    }

    fn register(&self, signal: i32) -> io::Result<signal_hook::SigId> {
        let signals = self.clone();
        // SAFETY: the action only reads and writes atomics, which a signal handler may do.
        unsafe { signal_hook::low_level::register(signal, move || signals.note()) }
    }

    /// Notes a signal.
    pub fn note(&self) {
        if self.first.swap(true, Ordering::Relaxed) {
            self.second.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether a signal was received.
    pub fn stop(&self) -> bool {
        self.first.load(Ordering::Relaxed)
    }

    /// Returns whether a second signal was received.
    pub fn stop_now(&self) -> bool {
        self.second.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_signal_is_told_from_the_first() {
        let signals = Signals::default();
        for expected in [(false, false), (true, false), (true, true), (true, true)] {
            assert_eq!((signals.stop(), signals.stop_now()), expected);
            signals.note();
        }
    }

    #[test]
    fn signals_of_the_system_are_noted() {
        let signals = Signals::catch().unwrap();
        for (signal, expected) in [
            (signal_hook::consts::SIGTERM, (true, false)),
            (signal_hook::consts::SIGINT, (true, true)),
        ] {
            signal_hook::low_level::raise(signal).unwrap();
            assert_eq!((signals.stop(), signals.stop_now()), expected);
        }
    }
}
