//! What is due when. All waits of one kind have the same length, so each kind is a queue in order of time.

use std::collections::VecDeque;

use crate::clock::Mono;

/// A queue of things due, in order.
pub struct Timers<T> {
    queue: VecDeque<(Mono, T)>,
    wait: Mono,
}

impl<T> Timers<T> {
    /// Everything put in falls due `wait` nanoseconds later.
    pub fn new(wait: Mono) -> Self {
        Timers {
            queue: VecDeque::new(),
            wait,
        }
    }

    /// Starts a wait at `from`. Starts must not go back in time by more than it matters to be late.
    pub fn start(&mut self, from: Mono, what: T) {
        self.queue.push_back((from + self.wait, what));
    }

    /// The next thing due before `now`.
    pub fn pop(&mut self, now: Mono) -> Option<T> {
        if self.queue.front().is_some_and(|(when, _)| *when <= now) {
            self.queue.pop_front().map(|(_, what)| what)
        } else {
            None
        }
    }

    /// When the next thing is due.
    pub fn next(&self) -> Option<Mono> {
        self.queue.front().map(|(when, _)| *when)
    }
}
