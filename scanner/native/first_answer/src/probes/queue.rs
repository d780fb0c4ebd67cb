//! Datagrams to send for probes in flight. Each port sends tokens first, then closes, which may wait for other closes.
//! Further connections use any port.

use std::collections::VecDeque;

use firstflight_core::clock::Mono;

use super::Kind;
use super::table::Handle;

/// At high rates, closes wait until their port has this number of closes, but at most for this time.
const CLOSES: usize = 16;
const CLOSE_WAIT: Mono = 10_000_000;

/// Probes that send tokens and closes from a port.
#[derive(Default)]
struct PortQueue {
    tokens: VecDeque<Handle>,
    closes: VecDeque<Handle>,
    /// When the first of `closes` was added.
    since: Mono,
}

impl PortQueue {
    /// Returns whether datagrams are due. `in_bulk`: closes may wait for other closes.
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
    /// Creates an empty queue for this number of ports.
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

    /// Returns whether datagrams of `port` are due. `in_bulk`: closes may wait for other closes.
    pub fn is_due(&self, port: usize, now: Mono, in_bulk: bool) -> bool {
        self.ports[port].is_due(now, in_bulk)
    }

    /// Dequeues the next datagram of `port`.
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

    /// Adds a probe that needs a further connection.
    pub fn next_attempt(&mut self, handle: Handle) {
        self.next_attempts.push_back(handle);
    }

    /// Dequeues the next probe that needs a further connection.
    pub fn pop_next_attempt(&mut self) -> Option<Handle> {
        self.next_attempts.pop_front()
    }

    /// Returns the number of further connections.
    pub fn next_attempts(&self) -> usize {
        self.next_attempts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Table, tests::flight};
    use super::*;

    fn handles() -> Vec<Handle> {
        let mut table = Table::new([9; 3]);
        (0..20).map(|cid| table.insert(flight(cid))).collect()
    }

    #[test]
    fn tokens_go_before_closes_and_each_in_order() {
        let h = handles();
        let mut queue = SendQueue::new(2);
        queue.close(0, h[0], 5);
        queue.close(0, h[1], 6);
        queue.token(0, h[2]);
        queue.token(0, h[3]);
        queue.token(1, h[4]);
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop(0)).collect();
        let expected = [
            (h[2], Kind::Token),
            (h[3], Kind::Token),
            (h[0], Kind::Close),
            (h[1], Kind::Close),
        ];
        assert_eq!(popped, expected);
        assert_eq!(queue.pop(1), Some((h[4], Kind::Token)));
        assert_eq!(queue.pop(1), None);
    }

    #[test]
    fn further_connections_wait_in_order_for_any_port() {
        let h = handles();
        let mut queue = SendQueue::new(1);
        assert_eq!((queue.next_attempts(), queue.pop_next_attempt()), (0, None));
        for (place, handle) in h[..3].iter().enumerate() {
            queue.next_attempt(*handle);
            assert_eq!(queue.next_attempts(), place + 1);
        }
        assert_eq!(
            (queue.pop_next_attempt(), queue.next_attempts()),
            (Some(h[0]), 2)
        );
        assert_eq!((queue.pop_next_attempt(), queue.pop(0)), (Some(h[1]), None));
    }

    #[test]
    fn a_queue_is_empty_only_without_any_datagram() {
        let h = handles();
        type Add = fn(&mut SendQueue, Handle);
        let ways: [(&str, Add); 4] = [
            ("token", |queue, handle| queue.token(1, handle)),
            ("close", |queue, handle| queue.close(1, handle, 0)),
            ("close of the first port", |queue, handle| {
                queue.close(0, handle, 0)
            }),
            ("further connection", |queue, handle| {
                queue.next_attempt(handle)
            }),
        ];
        for (name, add) in ways {
            let mut queue = SendQueue::new(2);
            assert!(queue.is_empty());
            add(&mut queue, h[0]);
            assert!(!queue.is_empty(), "{name}");
        }
    }

    #[test]
    fn closes_wait_for_company_or_a_while_if_much_is_sent() {
        let h = handles();
        let since = 3 * CLOSE_WAIT;
        for (name, tokens, closes, now, in_bulk, due) in [
            ("nothing", 0, 0, since + CLOSE_WAIT, false, false),
            ("nothing, in bulk", 0, 0, since + CLOSE_WAIT, true, false),
            ("a token", 1, 0, since, true, true),
            ("a token and a close", 1, 1, since, true, true),
            ("a close", 0, 1, since, false, true),
            ("a close in bulk", 0, 1, since, true, false),
            (
                "a close before it is old",
                0,
                2,
                since + CLOSE_WAIT - 1,
                true,
                false,
            ),
            ("an old close", 0, 2, since + CLOSE_WAIT, true, true),
            ("nearly enough closes", 0, CLOSES - 1, since, true, false),
            ("enough closes", 0, CLOSES, since, true, true),
        ] {
            let mut queue = SendQueue::new(2);
            h[..tokens]
                .iter()
                .for_each(|handle| queue.token(1, *handle));
            for (place, handle) in h[..closes].iter().enumerate() {
                queue.close(1, *handle, since + place as Mono);
            }
            assert_eq!(queue.is_due(1, now, in_bulk), due, "{name}");
            assert!(!queue.is_due(0, now, in_bulk), "{name}: another port");
        }
    }

    #[test]
    fn a_new_wait_begins_with_the_first_close_after_all_others_left() {
        let h = handles();
        let mut queue = SendQueue::new(1);
        queue.close(0, h[0], 0);
        queue.pop(0);
        queue.close(0, h[1], 5 * CLOSE_WAIT);
        assert!(!queue.is_due(0, 6 * CLOSE_WAIT - 1, true));
        assert!(queue.is_due(0, 6 * CLOSE_WAIT, true));
    }
}
