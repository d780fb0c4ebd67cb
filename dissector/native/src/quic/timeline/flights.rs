//! The client's flights before its request: probes, its default probe timeout, its second flight; and how long
//! the server waited for its address to be validated.

use firstflight_wire::Frame;

use super::packed::Packed;
use super::pieces::Pieces;

/// Datagrams remembered in a handshake: a server's first flight has five to twenty.
const MOST_DATAGRAMS: usize = 256;

/// A datagram of the handshake.
#[derive(Clone, Copy, Debug)]
struct Passed {
    ns: i64,
    bytes: u32,
    from_client: bool,
    /// It carries bytes of CRYPTO or STREAM frames for the first time.
    brings: bool,
}

/// Facts about the client's flights and the server's wait.
#[derive(Debug, Default)]
pub struct Flights {
    /// The CRYPTO bytes that the client's Initials carried.
    crypto: Pieces,
    /// Time of the client's last Initial with new CRYPTO bytes.
    new_ns: Packed,
    /// Time from `new_ns` to the next ack-eliciting Initial, if no datagram of the server arrived before.
    pub default_pto_ns: Option<i64>,
    /// Ack-eliciting Initials of the client after the server's first ACK and before its ServerHello.
    pub probes: u32,
    /// Ordinals, from 1, of the client's datagrams with its first Handshake packet and, from there on, with its
    /// first STREAM frame.
    pub second: Option<u32>,
    pub second_end: Option<u32>,
    /// The datagrams up to the first one that the server sent after it had received the client's first Handshake
    /// packet.
    passed: Vec<Passed>,
    /// The client's CRYPTO bytes are in too many pieces to recognize all repetitions.
    pub is_scattered: bool,
    /// Index in `passed` of the datagram with the client's first Handshake packet.
    validates: Option<usize>,
    is_over: bool,
}

impl Flights {
    /// An Initial of the client opened. `heard`: a datagram of the server had arrived before. `awaits_hello`: an ACK of
    /// the server had arrived, but no ServerHello.
    pub(super) fn client_initial(
        &mut self,
        ns: i64,
        frames: &[Frame<'_>],
        heard: bool,
        awaits_hello: bool,
    ) {
        let mut brings = false;
        for frame in frames {
            if let Frame::Crypto { offset, data } = frame {
                match self.crypto.add(*offset, offset + data.len() as u64) {
                    Some(is_new) => brings |= is_new,
                    None => self.is_scattered = true,
                }
            }
        }
        if brings {
            self.new_ns.set(ns);
        } else if frames.iter().any(Frame::is_ack_eliciting) {
            self.probes = self.probes.saturating_add(u32::from(awaits_hello));
            if let Some(new_ns) = self.new_ns.get().filter(|_| !heard) {
                self.default_pto_ns.get_or_insert(ns - new_ns);
            }
        }
    }

    /// A Handshake packet in the client's datagram `ordinal`.
    pub(super) fn client_handshake(&mut self, ordinal: u32) {
        self.second.get_or_insert(ordinal);
    }

    /// A 0-RTT or 1-RTT packet in the client's datagram `ordinal`.
    pub fn client_application(&mut self, ordinal: u32, frames: &[Frame<'_>]) {
        let is_awaited = self.second.is_some() && self.second_end.is_none();
        let is_stream = |frame: &Frame<'_>| matches!(frame, Frame::Stream { .. });
        if is_awaited && frames.iter().any(is_stream) {
            self.second_end = Some(ordinal);
        }
    }

    /// A datagram, after the packets.
    pub fn datagram(&mut self, ns: i64, bytes: usize, from_client: bool, brings: bool) {
        if self.is_over {
            return;
        }
        self.passed.push(Passed {
            ns,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            from_client,
            brings,
        });
        let now = self.passed.len() - 1;
        let answers = !from_client && self.was_validated(now, self.first_wait_ns());
        self.is_over = answers || self.passed.len() >= MOST_DATAGRAMS;
        if self.validates.is_none() && self.second.is_some() {
            self.validates = Some(now);
        }
    }

    /// Whether the server had received the client's first Handshake packet when it sent the datagram `index`.
    fn was_validated(&self, index: usize, path_ns: i64) -> bool {
        self.validates.is_some_and(|validates| {
            index > validates && self.passed[index].ns - self.passed[validates].ns >= path_ns
        })
    }

    /// From the client's first datagram to the server's: at the client a round trip or more.
    fn first_wait_ns(&self) -> i64 {
        let first = |from_client| self.passed.iter().find(|d| d.from_client == from_client);
        match (first(true), first(false)) {
            (Some(client), Some(server)) => server.ns - client.ns,
            _ => 0,
        }
    }

    /// How long the anti-amplification limit blocked the server: it may send three times the bytes that it has received
    /// (RFC 9000 8.1). Sums the times from the last datagram before the limit to the next datagram.
    ///
    /// `path_ns` is the round-trip time between capture and server: the full round-trip time for a capture at the
    /// client, 0 for one at the server. The server had received the client's datagrams that were captured at least
    /// `path_ns` before its own datagram. The time to the server's first datagram bounds `path_ns`, because a longer
    /// sample was delayed.
    pub fn blocked_ns(&self, path_ns: i64) -> i64 {
        let path_ns = path_ns.min(self.first_wait_ns());
        let mut blocked_ns = 0;
        let mut sent = 0u64;
        let mut last: Option<usize> = None;
        for (i, datagram) in self.passed.iter().enumerate() {
            if datagram.from_client {
                continue;
            }
            let with_it = sent + u64::from(datagram.bytes);
            if let Some(last) = last {
                if self.was_validated(last, path_ns) {
                    break;
                }
                let allowed = self.allowed(i, path_ns);
                let is_beyond = with_it > allowed;
                // The datagram exceeds the limit, but the client may have answered meanwhile: its address is valid, and
                // the path is shorter than `path_ns`. Without such a wait, it is the last datagram before the limit,
                // and longer than the remaining allowance.
                let may_leave = !is_beyond || self.may_have_heard(last, i, path_ns);
                let has_waited =
                    datagram.brings && with_it > self.allowed(last, path_ns) && may_leave;
                if has_waited {
                    blocked_ns += datagram.ns - self.passed[last].ns;
                }
                if is_beyond && has_waited || sent >= allowed && datagram.brings {
                    break;
                }
            }
            (sent, last) = (with_it, Some(i));
        }
        blocked_ns
    }

    /// Whether a datagram of the client can have reached the server between its datagrams `last` and `now`.
    fn may_have_heard(&self, last: usize, now: usize, path_ns: i64) -> bool {
        if self.was_validated(now, path_ns) {
            return true;
        }
        if path_ns == 0 {
            return self.passed[last..now].iter().any(|d| d.from_client);
        }
        2 * (self.passed[now].ns - self.passed[last].ns) >= path_ns
    }

    /// Three times the bytes that the server had received when it sent the datagram `index`.
    fn allowed(&self, index: usize, path_ns: i64) -> u64 {
        let clients = self.passed[..index].iter().filter(|d| d.from_client);
        let received = clients.filter(|d| d.ns <= self.passed[index].ns - path_ns);
        3 * received.map(|d| u64::from(d.bytes)).sum::<u64>()
    }
}

#[cfg(test)]
mod tests;
