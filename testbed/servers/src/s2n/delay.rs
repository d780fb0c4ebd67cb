//! A delay that wakes a task when it expires. A thread sleeps for it, because tokio rounds its timers up to
//! milliseconds.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

#[derive(Default)]
struct State {
    due: bool,
    waker: Option<Waker>,
}

pub struct Delay(Arc<Mutex<State>>);

impl Delay {
    /// Starts the delay.
    pub fn new(delay: Duration) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            state.due = true;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        });
        Self(state)
    }

    /// Returns whether the delay has expired; if not, wakes `waker` when it expires.
    pub fn is_due(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.due {
            state.waker = Some(waker.clone());
        }
        state.due
    }
}
