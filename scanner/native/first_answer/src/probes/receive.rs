//! Processes datagrams and ICMP messages, and finds their probes.

use std::net::SocketAddr;

use firstflight_core::cid::{destination_cid, source_cid};
use firstflight_core::clock::{Mono, Stamp, as_stamp};
use firstflight_core::receive::{Control, Icmp};
use firstflight_core::targets::Groups;

use super::{Phase, Probes};
use crate::exchange::Step;

impl Probes {
    /// Processes an ICMP message that quotes a datagram from number `port` to `to`. `quote` is the quoted part of the
    /// payload. If it lacks the connection ID, anybody who guesses our port may have sent the message. It then
    /// completes a probe only if the server itself sent it.
    pub fn icmp(&mut self, port: usize, to: SocketAddr, icmp: &Icmp, quote: &[u8], now: Mono) {
        let quoted_cid = source_cid(quote);
        let handle = match quoted_cid {
            Some(cid) => self.table.find_cid(cid),
            // Many routers quote only the ports.
            None if quote.len() < SHORTEST_QUOTE => self.table.find_tuple(to, port as u16, now),
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
        } else if !matches!(flight.phase, Phase::Cooldown | Phase::Listening) {
            let unreachable = icmp.is_port_unreachable();
            let proven = quoted_cid.is_some() || icmp.offender == Some(to.ip());
            if unreachable && !proven {
                self.counts.unproven_icmp += 1;
                flight.exchange.note(|| {
                    let from = icmp.offender.map(|ip| ip.to_string());
                    format!(
                        "port unreachable from {}: the sender is not the server, and the \
                         message quotes no connection ID",
                        from.as_deref().unwrap_or("an unknown address")
                    )
                });
            }
            let refused = unreachable && proven;
            if flight.exchange.icmp(icmp.kind, icmp.code, refused) == Step::End {
                self.end(handle, now);
            }
        }
    }

    /// Processes a datagram from `peer` to number `port`. `wall` reads the clock of the stamps.
    #[expect(
        clippy::too_many_arguments,
        reason = "the kernel's report, and both clocks"
    )]
    pub fn datagram(
        &mut self,
        port: usize,
        peer: SocketAddr,
        control: &Control,
        bytes: &mut [u8],
        now: Mono,
        wall: impl FnOnce() -> Stamp,
        groups: &Groups,
    ) {
        let cid = destination_cid(bytes);
        let by_cid = cid.and_then(|cid| Some((self.table.find_cid(cid)?, cid)));
        // A datagram from another address is not the server's, even with the right connection ID.
        let by_cid = by_cid.filter(|(handle, _)| {
            self.table
                .get(*handle)
                .is_some_and(|flight| flight.to == peer)
        });
        let handle = match (by_cid, cid) {
            (Some((handle, _)), _) => Some(handle),
            // A late datagram to a finished probe does not belong to the next probe.
            (None, Some(cid)) if self.table.was_removed(cid) => None,
            _ => self.table.find_tuple(peer, port as u16, now),
        };
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
        if flight.phase == Phase::Listening && !late_attempt {
            self.hear(handle, at, bytes, by_cid.is_none(), now);
            return;
        }
        if flight.phase != Phase::Open || late_attempt {
            flight.after_close = flight.after_close.saturating_add(1);
            return;
        }
        let (window, settle) = (
            as_stamp(self.settings.window),
            as_stamp(self.settings.settle),
        );
        if flight.exchange.is_over(at, flight.sent(), window, settle) {
            self.end_by_window(handle, now, groups);
            match self.table.get(handle) {
                Some(flight) if flight.phase == Phase::Listening => {
                    self.hear(handle, at, bytes, by_cid.is_none(), now);
                }
                Some(flight) => flight.after_close = flight.after_close.saturating_add(1),
                None => {}
            }
            return;
        }
        flight.ttl = flight.ttl.or(control.ttl);
        flight.local = flight.local.or(control.local);
        if let Some(field) = control.ecn {
            flight.exchange.marks.count(field);
        }
        if by_cid.is_none() {
            flight.exchange.receive_stray(bytes);
            return;
        }
        let had_hello = flight.exchange.hello.is_some();
        match flight.exchange.receive(at, bytes) {
            Step::Wait => {
                if !had_hello && flight.exchange.hello.is_some() {
                    // The settle time starts at the stamp, if both clocks agree.
                    let late = (wall() - at).clamp(0, settle) as Mono;
                    self.deadlines
                        .settles
                        .start(now.saturating_sub(late), handle);
                }
            }
            Step::SendToken => self.queue.token(port, handle),
            Step::End => self.end(handle, now),
        }
    }
}

/// Payload bytes of our Initial up to the end of the client's connection ID.
const SHORTEST_QUOTE: usize = 23;
