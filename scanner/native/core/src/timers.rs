//! Timers. All waits of a kind have the same length, so each kind is a queue in order of time.

use std::collections::VecDeque;

use crate::clock::Mono;

/// Timers of the same kind, in order.
pub struct Timers<T> {
    queue: VecDeque<(Mono, T)>,
    wait: Mono,
}

impl<T> Timers<T> {
    /// Every timer expires `wait` nanoseconds after the start.
    pub fn new(wait: Mono) -> Self {
        Timers {
            queue: VecDeque::new(),
            wait,
        }
    }

    /// Starts a timer at `from`. A timer that starts earlier than the previous one expires late, by the
    /// difference.
    pub fn start(&mut self, from: Mono, what: T) {
        self.queue.push_back((from + self.wait, what));
    }

    /// Removes and returns the next timer that has expired at `now`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_expire_after_their_wait_in_the_order_of_their_start() {
        let mut timers = Timers::new(100);
        assert_eq!((timers.next(), timers.pop(Mono::MAX)), (None, None));
        timers.start(5, 'a');
        timers.start(7, 'b');
        timers.start(7, 'c');
        for (now, expected) in [
            (104, None),
            (105, Some('a')),
            (105, None),
            (106, None),
            (200, Some('b')),
            (200, Some('c')),
            (200, None),
        ] {
            assert_eq!(timers.pop(now), expected, "{now}");
        }
    }

    #[test]
    fn the_next_one_is_the_first_that_was_started() {
        let mut timers = Timers::new(100);
        timers.start(50, ());
        timers.start(20, ());
        assert_eq!(timers.next(), Some(150));
        assert_eq!(timers.pop(120), None, "it expires late, behind the first");
        timers.pop(150);
        assert_eq!(timers.next(), Some(120));
    }
}
