//! The peer's packets that arrived, and their acknowledgements.

use std::collections::BTreeMap;

use firstflight_wire::Ack;

use super::spans::Spans;

/// Maximum number of packets that await an acknowledgement; beyond it, the oldest are forgotten.
const MOST_PENDING: usize = 1 << 16;

/// The peer's packets in the packet number space of 1-RTT packets.
#[derive(Debug, Default)]
pub struct Received {
    pub packets: u64,
    pub eliciting: u64,
    pub eliciting_acknowledged: u64,
    /// Packets with a lower number than an earlier packet.
    pub reordered: u64,
    largest: Option<u64>,
    /// The last packet left a gap, or was late.
    pub is_out_of_order: bool,
    /// Arrival times of unacknowledged ack-eliciting packets.
    pending: BTreeMap<u64, i64>,
    seen: Spans,
    acknowledged: Spans,
}

/// The ack-eliciting packets that an ACK newly acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct New {
    pub packets: u64,
    /// Arrival of the oldest.
    pub oldest_ns: Option<i64>,
}

impl New {
    pub(super) fn add(&mut self, other: New) {
        self.packets += other.packets;
        let both = self.oldest_ns.into_iter().chain(other.oldest_ns);
        self.oldest_ns = both.min();
    }
}

impl Received {
    /// Adds a packet that arrives for the first time.
    pub(super) fn packet(&mut self, number: u64, ns: i64, is_eliciting: bool) {
        self.packets += 1;
        let next = self.largest.map_or(0, |largest| largest + 1);
        self.reordered += u64::from(number < next);
        self.is_out_of_order = number != next;
        self.largest = self.largest.max(Some(number));
        self.seen.add(number..=number);
        if !is_eliciting {
            return;
        }
        self.eliciting += 1;
        // The capture shows the ACK before the packet.
        if self.acknowledged.contains(number) {
            self.eliciting_acknowledged += 1;
            return;
        }
        self.pending.insert(number, ns);
        if self.pending.len() > MOST_PENDING {
            self.pending.pop_first();
        }
    }

    /// Processes a sent ACK.
    pub(super) fn acknowledge(&mut self, ack: &Ack<'_>) -> New {
        let mut new = New::default();
        for range in ack.ranges() {
            while let Some((&number, &ns)) = self.pending.range(range.clone()).next() {
                self.pending.remove(&number);
                new.add(New {
                    packets: 1,
                    oldest_ns: Some(ns),
                });
            }
            self.acknowledged.add(range);
        }
        self.eliciting_acknowledged += new.packets;
        new
    }

    /// Numbers below the largest that did not arrive.
    pub fn missing(&self) -> u64 {
        self.largest
            .map_or(0, |largest| largest + 1 - self.seen.count())
    }

    /// Acknowledged numbers that did not arrive.
    pub fn acknowledged_unseen(&self) -> u64 {
        self.acknowledged.without(&self.seen)
    }
}
