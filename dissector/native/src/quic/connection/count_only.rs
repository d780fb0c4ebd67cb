//! A fast path for datagrams that only change counters: no key decrypts them, and the first answer is complete.
//!
//! In a capture without keys, most datagrams are of this kind. The counters they change are adjacent, at the start of
//! `Connection`, so that few cold cache lines are loaded.

use firstflight_wire::skim;

use super::datagram::is_zeros;
use super::{Arrival, Connection};

/// A side's counts that are not yet merged into the connection's.
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
    /// Some lengths are derived from the captured bytes.
    is_guessed: bool,
    /// Whether a datagram was counted since then.
    has_counts: bool,
    /// Only counters can change, except by an Initial, a Retry or a Version Negotiation packet.
    is_active: bool,
}

impl Connection {
    /// Decides, after a datagram was fully processed, whether the next ones need only be counted.
    pub(super) fn update_count_only(&mut self) {
        self.count_only.is_active =
            self.protection.has_nothing_to_open() && self.timeline.is_over();
        if self.count_only.is_active {
            // Initials are rare from now on, and their keys can be derived again.
            self.drop_keys();
        }
    }

    /// Counts a datagram if it needs no more processing. Returns whether it was counted.
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

    /// Merges these counts into the connection's. Call this before any use of the connection's counts. Turns the fast
    /// path off until [`Connection::update_count_only`].
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

/// Number of packets in a datagram that holds only Handshake, 0-RTT and 1-RTT packets, else `None`. Also `None` for an
/// empty datagram.
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
