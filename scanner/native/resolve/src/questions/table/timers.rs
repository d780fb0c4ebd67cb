//! Timeouts of attempts, and the waits between them.

use std::cmp::Reverse;

use firstflight_core::clock::Mono;

use super::Table;
use crate::questions::question::{End, State};
use crate::status::Status;

impl Table {
    /// Fails attempts that have timed out at `now`, and starts attempts whose wait is complete.
    pub fn expire(&mut self, now: Mono) {
        while let Some((due, number, timer)) = self.deadlines.front().copied() {
            let question = self
                .questions
                .get_mut(number)
                .filter(|question| question.timer == Some(timer));
            let Some(question) = question else {
                self.deadlines.pop_front();
                continue;
            };
            if due > now {
                break;
            }
            self.deadlines.pop_front();
            if let State::Sent { socket, id } = question.state {
                let tcp = question.tcp.then_some(question.resolver);
                self.take_back(socket, Some(id), tcp);
                self.end(number, End::Failure(Status::Timeout, None), now);
            }
        }
        while let Some(Reverse((due, number, timer))) = self.backoffs.peek().copied() {
            if due > now {
                break;
            }
            self.backoffs.pop();
            if self
                .questions
                .get_mut(number)
                .is_some_and(|question| question.timer == Some(timer))
            {
                self.begin_attempt(number, now);
            }
        }
    }

    /// Returns the time of the next timeout or of the next attempt.
    pub fn next_at(&self) -> Option<Mono> {
        let deadline = self.deadlines.front().map(|(due, _, _)| *due);
        let backoff = self.backoffs.peek().map(|Reverse((due, _, _))| *due);
        deadline.into_iter().chain(backoff).min()
    }
}
