//! SIGINT and SIGTERM: after the first the run ends in order, after the second at once.

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
    /// Catches them from now on.
    pub fn catch() -> Result<Signals, Failure> {
        let signals = Signals::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // Handlers run in the order of registration, so the first signal finds `first` unset here.
            let registered = signals
                .register_second(signal)
                .and_then(|_| signal_hook::flag::register(signal, signals.first.clone()));
            registered.map_err(|e| Failure::Usage(format!("signals cannot be caught: {e}")))?;
        }
        Ok(signals)
    }

    fn register_second(&self, signal: i32) -> io::Result<signal_hook::SigId> {
        let (first, second) = (self.first.clone(), self.second.clone());
        // SAFETY: the action only reads and writes atomics, which a signal handler may do.
        unsafe {
            signal_hook::low_level::register(signal, move || {
                if first.load(Ordering::Relaxed) {
                    second.store(true, Ordering::Relaxed);
                }
            })
        }
    }

    /// Returns whether one has come.
    pub fn stop(&self) -> bool {
        self.first.load(Ordering::Relaxed)
    }

    /// Returns whether another has come since.
    pub fn stop_now(&self) -> bool {
        self.second.load(Ordering::Relaxed)
    }
}
