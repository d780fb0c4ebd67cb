//! Receiving: transmit stamps and ICMP from the error queues, datagrams, and which probe they are for.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::Engine;
use crate::exchange::Step;
use crate::table::Phase;
use firstflight_core::clock::{Mono, as_stamp, wall};
use firstflight_core::egress::mmsg::BATCH;
use firstflight_core::receive::cmsg::{Control, ExtendedError};

/// Most batches read from a port before others have their turn.
const ROUNDS: usize = 16;

/// SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, SO_EE_ORIGIN_TIMESTAMPING (linux/errqueue.h).
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;
const ORIGIN_STAMP: u8 = 4;

impl Engine {
    /// Reads all ports; gives the time up to which everything that came is read.
    pub(super) fn receive_all(&mut self) -> Mono {
        let before = self.clock.now();
        let mut drained = true;
        for port in self.poll.ready() {
            self.read_errors(port);
            drained &= self.read_datagrams(port);
        }
        if drained {
            self.drained = before;
        }
        self.drained
    }

    /// Whether the port is empty now.
    fn read_datagrams(&mut self, port: usize) -> bool {
        let Some(mut inbox) = self.inbox.take() else {
            return true;
        };
        let socket = self.ports.get(port);
        let mut empty = false;
        for _ in 0..ROUNDS {
            let read = inbox.receive(socket.as_fd(), false, |got| {
                if let Some(peer) = got.peer {
                    self.datagram(port, peer, &got.control, got.bytes);
                }
            });
            // An error here is one that ICMP left behind and the error queue has told.
            if read.is_ok_and(|n| n < BATCH) {
                empty = true;
                break;
            }
        }
        self.inbox = Some(inbox);
        empty
    }

    /// Reads the error queue of a port until it is empty.
    pub(super) fn read_errors(&mut self, port: usize) {
        let Some(mut inbox) = self.errors.take() else {
            return;
        };
        let socket = self.ports.get(port);
        for _ in 0..ROUNDS {
            let read = inbox.receive(socket.as_fd(), true, |got| {
                let Some(error) = got.control.error else {
                    return;
                };
                match (error.origin, got.peer) {
                    (ORIGIN_STAMP, _) => self.stamp(port, error.data, &got.control),
                    (ORIGIN_ICMP | ORIGIN_ICMP6, Some(to)) => {
                        self.icmp(port, to, &error, got.bytes)
                    }
                    _ => {}
                }
            });
            // What comes from now on makes the port ready again.
            if read.is_ok_and(|n| n < BATCH) {
                break;
            }
        }
        self.errors = Some(inbox);
    }

    fn stamp(&mut self, port: usize, number: u32, control: &Control) {
        let Some(stamp) = control.stamp else { return };
        let Some(request) = self.requests[port].take(number, stamp) else {
            return;
        };
        let request = request.key;
        let Some(flight) = self.table.get(request.handle) else {
            return;
        };
        if flight.attempt != request.attempt {
            return;
        }
        if !request.token {
            flight.first_sent = Some(stamp);
        }
        if flight.token_sent == request.token {
            flight.sent_at = Some(stamp);
        }
    }

    /// An ICMP message that quotes a datagram from `port` to `to`; `quote` is what it quotes of the payload. Without the
    /// connection ID in it, anybody who guesses our port may have sent it: then only the server's own word ends a probe.
    fn icmp(&mut self, port: usize, to: SocketAddr, error: &ExtendedError, quote: &[u8]) {
        let quoted_cid = source_cid(quote);
        let handle = match quoted_cid {
            Some(cid) => self.table.find_cid(cid),
            // Many routers quote no more than the ports.
            None if quote.len() < SHORTEST_QUOTE => {
                self.table.find_tuple(to, port as u16, self.clock.now())
            }
            None => None,
        };
        let Some((handle, flight)) =
            handle.and_then(|handle| Some((handle, self.table.get(handle)?)))
        else {
            self.counts.unmatched_icmp += 1;
            return;
        };
        if flight.to != to {
            self.counts.unmatched_icmp += 1;
        } else if flight.phase != Phase::Cooldown {
            let unreachable = match error.origin {
                ORIGIN_ICMP => (error.kind, error.code) == (3, 3),
                _ => (error.kind, error.code) == (1, 4),
            };
            let proven = quoted_cid.is_some() || error.offender == Some(to.ip());
            if unreachable && !proven {
                self.counts.unproven_icmp += 1;
                flight.exchange.note(|| {
                    let from = error.offender.map(|ip| ip.to_string());
                    format!(
                        "port unreachable, says {}, which is not the server, and quotes no connection ID",
                        from.as_deref().unwrap_or("nobody")
                    )
                });
            }
            let final_word = unreachable && proven;
            if flight.exchange.icmp(error.kind, error.code, final_word) == Step::End {
                let now = self.clock.now();
                self.end(handle, now);
            }
        }
    }

    fn datagram(&mut self, port: usize, peer: SocketAddr, control: &Control, bytes: &mut [u8]) {
        let by_cid = destination_cid(bytes).and_then(|cid| Some((self.table.find_cid(cid)?, cid)));
        // Someone who answers from elsewhere is not who was asked; he may know the connection ID all the same.
        let by_cid = by_cid.filter(|(handle, _)| {
            self.table
                .get(*handle)
                .is_some_and(|flight| flight.to == peer)
        });
        let handle = by_cid
            .map(|(handle, _)| handle)
            .or_else(|| self.table.find_tuple(peer, port as u16, self.clock.now()));
        let Some((handle, flight)) =
            handle.and_then(|handle| Some((handle, self.table.get(handle)?)))
        else {
            self.counts.unmatched += 1;
            return;
        };
        let Some(at) = control.stamp else {
            self.counts.missing_rx_stamps += 1;
            return;
        };
        let late_attempt = by_cid.is_some_and(|(_, cid)| cid != flight.exchange.client_cid);
        if flight.phase != Phase::Open || late_attempt {
            flight.after_close = flight.after_close.saturating_add(1);
            return;
        }
        let (window, settle) = (
            as_stamp(self.settings.window),
            as_stamp(self.settings.settle),
        );
        let now = self.clock.now();
        if flight.exchange.is_over(at, flight.sent(), window, settle) {
            self.end_by_window(handle, now);
            if let Some(flight) = self.table.get(handle) {
                flight.after_close = flight.after_close.saturating_add(1);
            }
            return;
        }
        flight.ttl = flight.ttl.or(control.ttl);
        flight.local = flight.local.or(control.local);
        if by_cid.is_none() {
            flight.exchange.receive_stray(bytes);
            return;
        }
        let had_hello = flight.exchange.hello.is_some();
        match flight.exchange.receive(at, bytes) {
            Step::Wait => {
                if !had_hello && flight.exchange.hello.is_some() {
                    // From the stamp, as far as our clocks agree.
                    let late = (wall() - at).clamp(0, settle) as Mono;
                    self.settles.start(now.saturating_sub(late), handle);
                }
            }
            Step::SendToken => self.outgoing[port].tokens.push_back(handle),
            Step::End => self.end(handle, now),
        }
    }
}

/// Payload bytes of our Initial up to the end of the client's connection ID.
const SHORTEST_QUOTE: usize = 23;

/// Destination connection ID of a packet to us, if it can be one of ours.
fn destination_cid(bytes: &[u8]) -> Option<[u8; 8]> {
    if bytes.first()? & 0x80 == 0 {
        return bytes.get(1..)?.first_chunk().copied();
    }
    if *bytes.get(5)? == 8 {
        bytes.get(6..)?.first_chunk().copied()
    } else {
        None
    }
}

/// Source connection ID of a packet of ours.
fn source_cid(bytes: &[u8]) -> Option<[u8; 8]> {
    let after = bytes.get(6 + usize::from(*bytes.get(5)?)..)?;
    if bytes[0] & 0x80 != 0 && *after.first()? == 8 {
        after.get(1..)?.first_chunk().copied()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_ids_are_found_in_headers() {
        let mut long = vec![0xc0, 0, 0, 0, 1, 8];
        long.extend([1; 8]);
        long.push(8);
        long.extend([2; 8]);
        assert_eq!(long.len(), SHORTEST_QUOTE);
        assert_eq!(
            (destination_cid(&long), source_cid(&long)),
            (Some([1; 8]), Some([2; 8]))
        );
        assert_eq!(
            (destination_cid(&long[..13]), source_cid(&long[..22])),
            (None, None)
        );
        assert_eq!(
            destination_cid(&[0x40, 3, 3, 3, 3, 3, 3, 3, 3, 9]),
            Some([3; 8])
        );
        assert_eq!((destination_cid(&[]), source_cid(&[])), (None, None));
        long[5] = 9;
        assert_eq!(destination_cid(&long), None);
    }
}
