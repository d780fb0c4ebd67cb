//! What is still to be sent from one port for probes in flight: tokens first, then closes, which may wait for company.

use std::collections::VecDeque;

use crate::table::Handle;
use firstflight_core::clock::Mono;

/// At high rates closes wait for so many others of their port, but not longer than this.
const CLOSES: usize = 16;
const CLOSE_WAIT: Mono = 10_000_000;

/// Tokens and closes of one port, by their probes.
#[derive(Default)]
pub struct PortQueue {
    pub tokens: VecDeque<Handle>,
    pub closes: VecDeque<Handle>,
    /// When the first of `closes` was put there.
    since: Mono,
}

impl PortQueue {
    /// Adds a close.
    pub fn close(&mut self, handle: Handle, now: Mono) {
        if self.closes.is_empty() {
            self.since = now;
        }
        self.closes.push_back(handle);
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.closes.is_empty()
    }

    /// Whether it is time to send; `in_bulk`: closes may wait for company.
    pub fn is_due(&self, now: Mono, in_bulk: bool) -> bool {
        let old = now >= self.since + CLOSE_WAIT;
        !self.tokens.is_empty()
            || !self.closes.is_empty() && (!in_bulk || old || self.closes.len() >= CLOSES)
    }
}
