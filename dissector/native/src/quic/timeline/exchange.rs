//! Waits of both sides, and bytes that the server sent before address validation.

use super::packed::Packed;

/// A capture's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureSide {
    Client,
    Server,
}

impl CaptureSide {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            CaptureSide::Client => "client",
            CaptureSide::Server => "server",
        }
    }
}

/// The capture was made at the side that answers at least this many times as fast as the other side.
const CLEARLY_LONGER: i64 = 4;
/// Initial TTLs and hop limits of hosts.
const FIRST_TTLS: [u8; 3] = [64, 128, 255];

/// Facts that datagrams show without decryption.
#[derive(Debug, Default)]
pub struct Exchange {
    client_ttl: Option<u8>,
    server_ttl: Option<u8>,
    last_client_ns: Packed,
    /// Time from the client's datagram to the server's first one after it.
    server_waited_ns: Packed,
    /// Time from the ServerHello to the client's next datagram.
    client_waited_ns: Packed,
    is_validated: bool,
    /// The capture cut a datagram that may hold the client's first Handshake packet.
    is_unsure: bool,
    /// UDP payload up to the client's first Handshake packet.
    pub client_bytes: u64,
    pub server_bytes: u64,
    /// Highest ratio of `server_bytes` to `client_bytes` at any time.
    highest: f64,
}

impl Exchange {
    pub(super) fn client_datagram(
        &mut self,
        ns: i64,
        bytes: usize,
        ttl: u8,
        hello_ns: Option<i64>,
    ) {
        self.client_ttl.get_or_insert(ttl);
        self.last_client_ns.set(ns);
        if let Some(hello_ns) = hello_ns {
            self.client_waited_ns.first(ns - hello_ns);
        }
        if !self.is_validated {
            self.client_bytes += bytes as u64;
        }
    }

    pub(super) fn server_datagram(&mut self, ns: i64, bytes: usize, ttl: u8) {
        self.server_ttl.get_or_insert(ttl);
        if let Some(sent_ns) = self.last_client_ns.get() {
            self.server_waited_ns.first(ns - sent_ns);
        }
        if !self.is_validated {
            self.server_bytes += bytes as u64;
            if self.client_bytes > 0 {
                let share = self.server_bytes as f64 / self.client_bytes as f64;
                self.highest = self.highest.max(share);
            }
        }
    }

    /// Whether further datagrams change nothing.
    pub(super) fn is_over(&self) -> bool {
        self.is_validated
            && self.client_ttl.is_some()
            && self.server_ttl.is_some()
            && self.server_waited_ns.get().is_some()
            && self.client_waited_ns.get().is_some()
    }

    /// The client proved its address (RFC 9000 8.1).
    pub(super) fn validated(&mut self) {
        self.is_validated = true;
    }

    /// The capture cut a datagram of the client. If the server has sent data, the datagram may validate the client's
    /// address.
    pub(super) fn client_cut(&mut self) {
        self.is_unsure |= !self.is_validated && self.server_bytes > 0;
    }

    /// Highest ratio of the server's bytes to the client's bytes before the address was validated; `None` if the server
    /// sent no bytes.
    pub fn amplification(&self) -> Option<f64> {
        Some(self.highest).filter(|_| self.server_bytes > 0)
    }

    /// Whether it is known when the address was validated, if it was.
    pub fn is_sure(&self) -> bool {
        !self.is_unsure
    }

    /// The side at which the capture was made, if known. Only this side's packets still have an initial TTL. If the
    /// TTLs are inconclusive, it is the side that answers clearly faster, because the path delays the other side's
    /// answers.
    pub fn capture_side(&self) -> Option<CaptureSide> {
        let is_fresh = |ttl: Option<u8>| ttl.is_some_and(|ttl| FIRST_TTLS.contains(&ttl));
        match (is_fresh(self.client_ttl), is_fresh(self.server_ttl)) {
            (true, false) if self.server_ttl.is_some() => return Some(CaptureSide::Client),
            (false, true) => return Some(CaptureSide::Server),
            _ => {}
        }
        let (server, client) = (self.server_waited_ns.get()?, self.client_waited_ns.get()?);
        if server >= client.saturating_mul(CLEARLY_LONGER) {
            Some(CaptureSide::Client)
        } else if client >= server.saturating_mul(CLEARLY_LONGER) {
            Some(CaptureSide::Server)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests;
