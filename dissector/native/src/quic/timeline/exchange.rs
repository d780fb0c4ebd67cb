//! Who waited how long for whom, and how much a server sent to an address that was not validated.

use super::packed::Packed;

/// Which end of the path a capture was made at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureSide {
    Client,
    Server,
}

impl CaptureSide {
    /// The word in records.
    pub fn name(self) -> &'static str {
        match self {
            CaptureSide::Client => "client",
            CaptureSide::Server => "server",
        }
    }
}

/// A side waited this many times as long as the other: the path lies behind it.
const CLEARLY_LONGER: i64 = 4;
/// TTL and hop limit that hosts begin with.
const FIRST_TTLS: [u8; 3] = [64, 128, 255];

/// What datagrams show without being opened.
#[derive(Debug, Default)]
pub struct Exchange {
    client_ttl: Option<u8>,
    server_ttl: Option<u8>,
    last_client_ns: Packed,
    /// From the client's datagram to the server's first one after it.
    server_waited_ns: Packed,
    /// From the ServerHello to the client's next datagram.
    client_waited_ns: Packed,
    is_validated: bool,
    /// The client's first Handshake packet may stand where the capture cut a datagram.
    is_unsure: bool,
    /// UDP payload up to the client's first Handshake packet.
    pub client_bytes: u64,
    pub server_bytes: u64,
    /// Highest share of the two at any time.
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

    /// The capture cut a datagram of the client, which may have proved its address there once the server had
    /// spoken.
    pub(super) fn client_cut(&mut self) {
        self.is_unsure |= !self.is_validated && self.server_bytes > 0;
    }

    /// Highest share of bytes of the server to bytes of the client before the address was validated; `None`
    /// if the server sent nothing.
    pub fn amplification(&self) -> Option<f64> {
        Some(self.highest).filter(|_| self.server_bytes > 0)
    }

    /// Whether it is known when the address was validated, if it was.
    pub fn is_sure(&self) -> bool {
        !self.is_unsure
    }

    /// Where the capture was made, if that shows: at the only side whose packets were not forwarded yet; else
    /// at the side that answers clearly faster than the other, behind which lies the path.
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
