//! Packets in transit, ordered by release. Buffers are reused.

use crate::frame::Packet;
use crate::log::Times;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A frame that waits for its release.
#[derive(Debug)]
pub struct Waiting {
    pub times: Times,
    pub to: usize,
    pub packet: Packet,
    pub frame: Vec<u8>,
}

/// Frames ordered by `release_ns`, then by arrival.
#[derive(Debug, Default)]
pub struct Queue {
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Option<Waiting>>,
    free: Vec<usize>,
    spare: Vec<Vec<u8>>,
    arrivals: u64,
}

impl Queue {
    /// Copies a frame that leaves through port `to` at its release.
    pub fn push(&mut self, times: Times, to: usize, packet: Packet, frame: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(2048));
        buffer.clear();
        buffer.extend_from_slice(frame);
        let waiting = Some(Waiting {
            times,
            to,
            packet,
            frame: buffer,
        });
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot] = waiting;
            slot
        } else {
            self.slots.push(waiting);
            self.slots.len() - 1
        };
        let order = (times.release_ns, self.arrivals, slot);
        self.order.push(Reverse(order));
        self.arrivals += 1;
    }

    /// Returns the release of the next frame.
    pub fn next_ns(&self) -> Option<u64> {
        self.order
            .peek()
            .map(|Reverse((release_ns, ..))| *release_ns)
    }

    /// Removes the next frame if it is due.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Waiting> {
        if self.next_ns()? > now_ns {
            return None;
        }
        let Reverse((_, _, slot)) = self.order.pop()?;
        self.free.push(slot);
        self.slots[slot].take()
    }

    /// Recycles a frame's buffer.
    pub fn recycle(&mut self, waiting: Waiting) {
        self.spare.push(waiting.frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{parse, tests::udp};

    #[test]
    fn by_release_then_by_arrival() {
        let packet = parse(&udp([198, 18, 0, 1], 1, [198, 18, 0, 2], 2)).expect("a whole datagram");
        let mut queue = Queue::default();
        for (release_ns, to) in [(30, 0), (10, 1), (10, 2), (20, 3)] {
            let times = Times {
                arrived_ns: release_ns - 10,
                release_ns,
                wait_ns: 0,
            };
            queue.push(times, to, packet, &[0; 60]);
        }
        assert_eq!(queue.next_ns(), Some(10));
        assert!(queue.pop_due(9).is_none());
        let mut order = Vec::new();
        while let Some(waiting) = queue.pop_due(25) {
            assert_eq!(waiting.times.arrived_ns, waiting.times.release_ns - 10);
            order.push(waiting.to);
            queue.recycle(waiting);
        }
        assert_eq!(order, [1, 2, 3]);
        assert_eq!(queue.next_ns(), Some(30));
    }
}
