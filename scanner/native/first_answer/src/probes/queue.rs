//! What is still to be sent for probes in flight: per port tokens first, then closes, which may wait for
//! company; and further connections, from any port.

use std::collections::VecDeque;

use firstflight_core::clock::Mono;

use super::Kind;
use super::table::Handle;

/// At high rates closes wait for so many others of their port, but not longer than this.
const CLOSES: usize = 16;
const CLOSE_WAIT: Mono = 10_000_000;

/// Tokens and closes of one port, by their probes.
#[derive(Default)]
struct PortQueue {
    tokens: VecDeque<Handle>,
    closes: VecDeque<Handle>,
    /// When the first of `closes` was added.
    since: Mono,
}

impl PortQueue {
    /// Returns whether it is time to send; `in_bulk`: closes may wait for company.
    fn is_due(&self, now: Mono, in_bulk: bool) -> bool {
        let old = now >= self.since + CLOSE_WAIT;
        !self.tokens.is_empty()
            || !self.closes.is_empty() && (!in_bulk || old || self.closes.len() >= CLOSES)
    }
}

/// Handles of probes with something to send.
pub struct SendQueue {
    ports: Vec<PortQueue>,
    next_attempts: VecDeque<Handle>,
}

impl SendQueue {
    /// An empty queue for so many ports.
    pub fn new(ports: usize) -> SendQueue {
        SendQueue {
            ports: (0..ports).map(|_| PortQueue::default()).collect(),
            next_attempts: VecDeque::new(),
        }
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        let empty = |port: &PortQueue| port.tokens.is_empty() && port.closes.is_empty();
        self.next_attempts.is_empty() && self.ports.iter().all(empty)
    }

    /// Returns whether it is time to send what waits for `port`; `in_bulk`: closes may wait for company.
    pub fn is_due(&self, port: usize, now: Mono, in_bulk: bool) -> bool {
        self.ports[port].is_due(now, in_bulk)
    }

    /// Takes the next datagram of `port`.
    pub fn pop(&mut self, port: usize) -> Option<(Handle, Kind)> {
        let port = &mut self.ports[port];
        let token = port.tokens.pop_front().map(|handle| (handle, Kind::Token));
        token.or_else(|| port.closes.pop_front().map(|handle| (handle, Kind::Close)))
    }

    /// Adds a token.
    pub fn token(&mut self, port: usize, handle: Handle) {
        self.ports[port].tokens.push_back(handle);
    }

    /// Adds a close.
    pub fn close(&mut self, port: usize, handle: Handle, now: Mono) {
        let port = &mut self.ports[port];
        if port.closes.is_empty() {
            port.since = now;
        }
        port.closes.push_back(handle);
    }

    /// Adds a further connection.
    pub fn next_attempt(&mut self, handle: Handle) {
        self.next_attempts.push_back(handle);
    }

    /// Takes the next further connection.
    pub fn pop_next_attempt(&mut self) -> Option<Handle> {
        self.next_attempts.pop_front()
    }

    /// Returns the number of further connections.
    pub fn next_attempts(&self) -> usize {
        self.next_attempts.len()
    }
}
