//! Timers: delayed ACKs, probe timeouts, and the end of the connection.

use firstflight_core::clock::Mono;
use firstflight_wire::transport::TransportParameters;

use super::Connection;
use super::parameters::idle_timeout;
use super::space::Level;

/// Delay of ACKs of 1-RTT packets. Servers retransmit packets without an ACK, and the close follows soon (RFC 9000
/// 13.2.1; max_ack_delay is 25 ms by default).
pub(super) const ACK_DELAY: Mono = 20_000_000;

/// How long a connection with a response waits for SETTINGS, HANDSHAKE_DONE and the end of the response.
pub(super) const SETTLE: Mono = 50_000_000;

/// The max_ack_delay that is assumed for a server (RFC 9000 18.2).
const MAX_ACK_DELAY: Mono = 25_000_000;

impl Connection {
    /// Returns when [`Self::expire`] must be called, or `None` after the end.
    pub fn next_at(&self) -> Option<Mono> {
        if self.is_over() {
            return None;
        }
        let ack = self.spaces[Level::Data as usize].ack_wanted;
        let due = [
            Some(self.deadline),
            self.settled,
            ack.map(|since| since + ACK_DELAY),
            Some(self.probe_at()),
        ];
        due.into_iter().flatten().min()
    }

    /// Handles the timers that are due at `now`. [`Self::transmit`] may then have datagrams to send.
    pub fn expire(&mut self, now: Mono) {
        if self.is_over() {
            return;
        }
        if now >= self.deadline {
            self.idle = self.is_silent(now);
            self.end_by_time();
        } else if self.settled.is_some_and(|at| now >= at) {
            self.end_done();
        } else if now >= self.probe_at() {
            self.probe(now);
        }
    }

    /// Returns whether the server was silent for so long that it has dropped a complete connection.
    fn is_silent(&self, now: Mono) -> bool {
        let theirs = self.tls.quic_transport_parameters().unwrap_or_default();
        let timeout = idle_timeout(TransportParameters::new(theirs));
        self.observed.handshake.is_some() && now.saturating_sub(self.heard) >= timeout
    }

    /// Returns when the next probe timeout expires. A client sends probes even while no packet is in flight, because
    /// the server may be unable to send (RFC 9002 6.2.2.1). After the handshake is confirmed, only packets in flight
    /// start the timer.
    fn probe_at(&self) -> Mono {
        let last = self
            .spaces
            .iter()
            .filter_map(|space| space.last_sent())
            .max();
        let max_ack_delay = if self.level == Level::Data {
            MAX_ACK_DELAY
        } else {
            0
        };
        let wait = self.recovery.probe_timeout(max_ack_delay);
        match last {
            None if self.observed.confirmed.is_some() => Mono::MAX,
            None => self.touched + wait,
            Some(last) => last.max(self.touched) + wait,
        }
    }

    /// Handles a probe timeout: queues unacknowledged data for retransmission, or a PING.
    fn probe(&mut self, now: Mono) {
        self.recovery.expired();
        self.observed.retransmissions = self.observed.retransmissions.saturating_add(1);
        self.touched = now;
        let opened = self.level == Level::Data || self.early.is_some();
        let mut again = opened && self.streams.send_again();
        again |= self.peer_ids.send_again();
        for space in self.spaces.iter_mut().filter(|space| space.keys.is_some()) {
            space.out.send_again();
            again |= space.out.is_waiting();
        }
        if !again {
            self.ping = Level::ALL
                .into_iter()
                .rev()
                .find(|level| self.spaces[*level as usize].keys.is_some());
        }
    }
}
