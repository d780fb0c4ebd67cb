//! 0-RTT datagrams that were captured before the Initial of their connection: the network or the capture changed
//! their order, or the Initial was lost.

use std::collections::VecDeque;
use std::net::SocketAddr;

use firstflight_wire::ConnectionId;

use crate::net::ip::Datagram;
use crate::quic::connection::Arrival;

/// Maximum number of held datagrams, and of their bytes; the oldest is dropped first.
const MOST: usize = 256;
const MOST_BYTES: usize = 1 << 20;
/// Longest wait for the Initial. No reordering lasts longer, and a probe timeout sends the Initial again.
const WAIT_NS: i64 = 3_000_000_000;

/// A datagram that waits for its Initial.
#[derive(Debug)]
pub struct HeldDatagram {
    pub arrival: Arrival,
    src: SocketAddr,
    dst: SocketAddr,
    dcid: ConnectionId,
    payload: Vec<u8>,
}

impl HeldDatagram {
    /// The datagram as captured.
    pub fn datagram(&self) -> Datagram<'_> {
        Datagram {
            src: self.src,
            dst: self.dst,
            ttl: self.arrival.ttl,
            payload: &self.payload,
            length: self.arrival.length,
            ip_length: self.arrival.ip_length,
        }
    }
}

/// Waiting datagrams, oldest first, and datagrams with a captured Initial.
#[derive(Debug, Default)]
pub(super) struct Held {
    waiting: VecDeque<HeldDatagram>,
    bytes: usize,
    ready: VecDeque<HeldDatagram>,
}

impl Held {
    /// Holds a datagram to `dcid`. Returns how many others were dropped to make room.
    pub(super) fn add(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        dcid: ConnectionId,
    ) -> u64 {
        self.bytes += datagram.payload.len();
        self.waiting.push_back(HeldDatagram {
            arrival: *arrival,
            src: datagram.src,
            dst: datagram.dst,
            dcid,
            payload: datagram.payload.to_vec(),
        });
        let mut given_up = 0;
        while self.waiting.len() > MOST
            || self.bytes > MOST_BYTES
            || self
                .waiting
                .front()
                .is_some_and(|oldest| is_late(oldest, arrival.ns))
        {
            let oldest = self.waiting.pop_front();
            self.bytes -= oldest.map_or(self.bytes, |oldest| oldest.payload.len());
            given_up += 1;
        }
        given_up
    }

    /// Releases a connection's datagrams. A client's Initial to `dcid` started it at `ns`. Returns the time of the
    /// earliest datagram.
    pub(super) fn claim(
        &mut self,
        ns: i64,
        (client, server): (SocketAddr, SocketAddr),
        dcid: &ConnectionId,
    ) -> Option<i64> {
        let is_its = |held: &HeldDatagram| {
            (held.src, held.dst) == (client, server) && held.dcid == *dcid && !is_late(held, ns)
        };
        if !self.waiting.iter().any(is_its) {
            return None;
        }
        for held in std::mem::take(&mut self.waiting) {
            if is_its(&held) {
                self.bytes -= held.payload.len();
                self.ready.push_back(held);
            } else {
                self.waiting.push_back(held);
            }
        }
        self.ready.iter().map(|held| held.arrival.ns).min()
    }

    /// Returns a released datagram.
    pub(super) fn ready(&mut self) -> Option<HeldDatagram> {
        self.ready.pop_front()
    }

    /// Drops all waiting datagrams and returns their number.
    pub(super) fn give_up(&mut self) -> u64 {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).len() as u64
    }
}

fn is_late(held: &HeldDatagram, now_ns: i64) -> bool {
    now_ns.saturating_sub(held.arrival.ns) > WAIT_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::ip::IpLength;

    const CLIENT: &str = "192.0.2.1:50000";
    const SERVER: &str = "192.0.2.2:443";

    fn add(held: &mut Held, ns: i64, dcid: u8, payload: &[u8]) -> u64 {
        let arrival = Arrival {
            ns,
            frame_number: 1,
            length: payload.len(),
            ip_length: IpLength::default(),
            ttl: 61,
        };
        let datagram = Datagram {
            src: CLIENT.parse().unwrap(),
            dst: SERVER.parse().unwrap(),
            ttl: 61,
            payload,
            length: payload.len(),
            ip_length: IpLength::default(),
        };
        held.add(&arrival, &datagram, [dcid; 8].into())
    }

    fn claim(held: &mut Held, ns: i64, dcid: u8) -> (Option<i64>, usize) {
        let path = (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
        let first_ns = held.claim(ns, path, &[dcid; 8].into());
        (first_ns, std::iter::from_fn(|| held.ready()).count())
    }

    #[test]
    fn an_initial_claims_what_went_to_its_connection_id() {
        let mut held = Held::default();
        for (ns, dcid) in [(5, 1), (6, 2), (7, 1)] {
            assert_eq!(add(&mut held, ns, dcid, b"0-rtt"), 0);
        }
        assert_eq!(claim(&mut held, 9, 1), (Some(5), 2));
        assert_eq!(held.bytes, b"0-rtt".len());
        assert_eq!(claim(&mut held, 9, 1), (None, 0));
        // Too late for the other one.
        assert_eq!(claim(&mut held, 7 + WAIT_NS, 2), (None, 0));
        assert_eq!((held.give_up(), held.bytes), (1, 0));
    }

    #[test]
    fn number_bytes_and_time_are_bounded() {
        let mut held = Held::default();
        let given_up: u64 = (0..MOST + 3).map(|_| add(&mut held, 0, 1, b"x")).sum();
        assert_eq!((given_up, held.waiting.len()), (3, MOST));
        assert_eq!(add(&mut held, 1 + WAIT_NS, 1, b"x"), MOST as u64);
        let large = vec![0; MOST_BYTES];
        assert_eq!(add(&mut held, 1 + WAIT_NS, 1, &large), 1);
        assert_eq!((held.waiting.len(), held.bytes), (1, MOST_BYTES));
    }
}
