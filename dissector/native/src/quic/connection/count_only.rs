//! Datagrams that can only be counted: no key opens them, and the first answer is over.
//!
//! Most datagrams of a capture without keys are such. What they change stands together at the front of a
//! connection, so that of its state, which is cold by then, little is fetched.

use firstflight_wire::skim;

use super::datagram::is_zeros;
use super::{Arrival, Connection};

/// What was counted of a side and is not in the connection's own counts yet.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    datagrams: u32,
    packets: u32,
    ip_bytes: u64,
}

/// Counts of datagrams since [`Connection::merge_counts`] was called.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountOnly {
    client: Counted,
    server: Counted,
    /// Some length was taken from what was captured.
    is_guessed: bool,
    /// There are such counts.
    has_counts: bool,
    /// Nothing but counts can change by packets that are no Initials, Retries and Version Negotiations.
    is_active: bool,
}

impl Connection {
    /// Determines, after a datagram was processed as a whole, whether others can be counted only.
    pub(super) fn update_count_only(&mut self) {
        self.count_only.is_active =
            self.protection.has_nothing_to_open() && self.timeline.is_over();
        if self.count_only.is_active {
            // Hardly an Initial comes after that, and its keys can be made again.
            self.drop_keys();
        }
    }

    /// Counts a datagram, if no more than that is to be done with it, and returns whether it did.
    pub(super) fn only_counts(
        &mut self,
        arrival: &Arrival,
        from_client: bool,
        datagram: &[u8],
    ) -> bool {
        if !self.count_only.is_active {
            return false;
        }
        let Some(packets) = protected_packets(datagram) else {
            return false;
        };
        self.last_ns = self.last_ns.max(arrival.ns);
        let count_only = &mut self.count_only;
        count_only.has_counts = true;
        count_only.is_guessed |= arrival.ip_length.is_guessed;
        let side = if from_client {
            &mut count_only.client
        } else {
            &mut count_only.server
        };
        side.datagrams = side.datagrams.saturating_add(1);
        side.packets = side.packets.saturating_add(packets);
        side.ip_bytes += arrival.ip_length.bytes as u64;
        true
    }

    /// Adds what was counted to the connection's own counts: before anything else looks at them. Until
    /// [`Connection::update_count_only`], nothing more is counted only.
    pub(super) fn merge_counts(&mut self) {
        if !self.count_only.has_counts {
            return;
        }
        let CountOnly {
            client,
            server,
            is_guessed,
            ..
        } = std::mem::take(&mut self.count_only);
        for (from_client, side) in [(true, client), (false, server)] {
            self.datagrams.add(from_client, side.datagrams);
            self.packets.add(from_client, side.packets);
            // No key opened them.
            self.undecrypted_packets = self.undecrypted_packets.saturating_add(side.packets);
            let datagrams = u64::from(side.datagrams);
            self.volume.sealed(from_client, datagrams, side.ip_bytes);
        }
        self.volume.is_guessed |= is_guessed;
        self.volume.last_ns = self.volume.last_ns.max(self.last_ns);
    }
}

/// Number of packets in a datagram of Handshake, 0-RTT and 1-RTT packets; `None` if it holds anything else,
/// or nothing.
fn protected_packets(datagram: &[u8]) -> Option<u32> {
    let mut start = skim(datagram, 0)?.end;
    let mut packets = 1;
    while start < datagram.len() && !is_zeros(&datagram[start..]) {
        start = skim(datagram, start)?.end;
        packets += 1;
    }
    Some(packets)
}

#[cfg(test)]
mod tests;
