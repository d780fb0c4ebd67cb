//! Who waited how long for whom, and how much a server sent to an address that was not validated.

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
    last_client_ns: Option<i64>,
    /// From the client's datagram to the server's first one after it.
    server_waited_ns: Option<i64>,
    /// From the ServerHello to the client's next datagram.
    client_waited_ns: Option<i64>,
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
        self.last_client_ns = Some(ns);
        if let Some(hello_ns) = hello_ns {
            self.client_waited_ns.get_or_insert(ns - hello_ns);
        }
        if !self.is_validated {
            self.client_bytes += bytes as u64;
        }
    }

    pub(super) fn server_datagram(&mut self, ns: i64, bytes: usize, ttl: u8) {
        self.server_ttl.get_or_insert(ttl);
        if let Some(sent_ns) = self.last_client_ns {
            self.server_waited_ns.get_or_insert(ns - sent_ns);
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
            && self.server_waited_ns.is_some()
            && self.client_waited_ns.is_some()
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
        let (server, client) = (self.server_waited_ns?, self.client_waited_ns?);
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
mod tests {
    use super::*;

    fn exchange(ttls: (u8, u8), server_waits: i64, client_waits: i64) -> Exchange {
        let mut e = Exchange::default();
        e.client_datagram(0, 1200, ttls.0, None);
        e.server_datagram(server_waits, 3000, ttls.1);
        e.client_datagram(server_waits + client_waits, 100, ttls.0, Some(server_waits));
        e
    }

    #[test]
    fn the_side_shows_by_ttl_or_time() {
        for (ttls, server, client, side) in [
            ((64, 57), 10, 10, Some(CaptureSide::Client)),
            ((121, 64), 10, 10, Some(CaptureSide::Server)),
            ((63, 63), 40, 2, Some(CaptureSide::Client)),
            ((64, 64), 2, 40, Some(CaptureSide::Server)),
            ((60, 58), 20, 30, None),
        ] {
            assert_eq!(exchange(ttls, server, client).capture_side(), side);
        }
        assert_eq!(Exchange::default().capture_side(), None);
    }

    #[test]
    fn what_the_capture_cut_may_have_validated() {
        let mut e = Exchange::default();
        e.client_datagram(0, 1200, 64, None);
        e.client_cut();
        assert!(e.is_sure(), "nobody has Handshake keys yet");
        e.server_datagram(10, 1200, 57);
        e.client_cut();
        assert!(!e.is_sure());
        let mut e = exchange((64, 57), 10, 10);
        e.validated();
        e.client_cut();
        assert!(e.is_sure());
    }

    #[test]
    fn amplification_ends_with_validation() {
        let mut e = exchange((64, 57), 10, 10);
        assert_eq!(e.amplification(), Some(2.5));
        e.validated();
        e.server_datagram(30, 100_000, 57);
        assert_eq!(e.amplification(), Some(2.5));
        assert_eq!((e.client_bytes, e.server_bytes), (1300, 3000));
        assert_eq!(Exchange::default().amplification(), None);
    }
}
