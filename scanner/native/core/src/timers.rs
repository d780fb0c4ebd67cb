//! Timers. All waits of one kind have the same length, so each kind is a queue in order of time.

use std::collections::VecDeque;

use crate::clock::Mono;

/// Timers of one kind, in order.
pub struct Timers<T> {
    queue: VecDeque<(Mono, T)>,
    wait: Mono,
}

impl<T> Timers<T> {
    /// Every timer expires `wait` nanoseconds after its start.
    pub fn new(wait: Mono) -> Self {
        Timers {
            queue: VecDeque::new(),
            wait,
        }
    }

    /// Starts a timer at `from`. One that starts earlier than the one before it expires late, by the
    /// difference.
    pub fn start(&mut self, from: Mono, what: T) {
        self.queue.push_back((from + self.wait, what));
    }

    /// Takes the next timer that expired before `now`.
    pub fn pop(&mut self, now: Mono) -> Option<T> {
        if self.queue.front().is_some_and(|(when, _)| *when <= now) {
            self.queue.pop_front().map(|(_, what)| what)
        } else {
            None
        }
    }

    /// Returns when the next timer expires.
    pub fn next(&self) -> Option<Mono> {
        self.queue.front().map(|(when, _)| *when)
    }
}
