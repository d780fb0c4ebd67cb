//! TargetRef target is next, from which port, and the connections that are opened to it.

use std::net::SocketAddr;

use rand_chacha::rand_core::Rng;

use super::Engine;
use super::completion::record;
use crate::exchange::Exchange;
use crate::finished::FinishedProbe;
use crate::outcome::Outcome;
use crate::table::{Flight, Handle, Phase};
use firstflight_core::clock::Mono;
use firstflight_core::targets::TargetRef;

impl Engine {
    /// The next target of the list that may be probed now; blocked ones become records on the way.
    pub(super) fn next_target(&mut self, now: Mono) -> Option<(u32, SocketAddr)> {
        let (counts, writer) = (&mut self.counts, &mut self.writer);
        self.backlog.next(now, self.egress.policy(), |target, why| {
            let target = TargetRef::Listed(target);
            record(
                counts,
                writer,
                FinishedProbe::unsent(target, Outcome::Blocked, why),
            );
        })
    }

    /// The system has no addresses of a family at all.
    pub(super) fn no_such_family(&mut self, targets: &[(u32, SocketAddr)], v4: bool) {
        for (target, _) in targets {
            self.unsent(
                TargetRef::Listed(*target),
                Outcome::SendFailed,
                no_family(v4),
            );
        }
    }

    /// Number of a source port, chosen at random.
    pub(super) fn random_port(&mut self, v4: bool) -> u16 {
        let random = self.random.next_u32() as usize;
        let ports = self.ports.of(v4);
        ports[random % ports.len()]
    }

    /// A new probe enters the table.
    pub(super) fn connect(&mut self, target: TargetRef, to: SocketAddr, port: u16) -> Handle {
        let (line, group) = {
            let target = self.list.look(&target);
            (target.line, target.group)
        };
        let cid = self.cids.of(line, 1);
        let exchange = Exchange::new(self.packets.destination(), cid);
        let handle = self.table.insert(Flight {
            target,
            line,
            to,
            port,
            group,
            attempt: 1,
            phase: Phase::Open,
            initial_size: self.settings.sizes[usize::from(to.is_ipv6())],
            token_sent: false,
            after_close: 0,
            ttl: None,
            local: None,
            first_sent: None,
            sent_at: None,
            sent_about: 0,
            exchange,
        });
        self.table.index(handle);
        handle
    }

    /// The next connection of a probe: everything fresh, only ICMP of before is kept, with the remark on it.
    pub(super) fn next_attempt(&mut self, handle: Handle) -> Option<Box<Exchange>> {
        let flight = self.table.get(handle)?;
        let cid = self.cids.of(flight.line, flight.attempt + 1);
        let mut fresh = Box::new(Exchange::new(self.packets.destination(), cid));
        // What leads to another connection is silence, so a remark can only be about ICMP.
        if let Some(rare) = flight.exchange.rare.as_deref()
            && let Some((kind, code)) = rare.icmp
        {
            fresh.icmp(kind, code, false);
            if let Some(remark) = &rare.detail {
                fresh.note(|| remark.clone());
            }
        }
        Some(fresh)
    }

    /// The next connection of a probe has been opened.
    pub(super) fn start_attempt(&mut self, handle: Handle, port: u16, fresh: Exchange) {
        let Some(flight) = self.table.get(handle) else {
            return;
        };
        flight.attempt += 1;
        flight.exchange = fresh;
        flight.port = port;
        flight.phase = Phase::Open;
        (flight.first_sent, flight.sent_at, flight.token_sent) = (None, None, false);
        self.table.index(handle);
    }
}

/// Why no target of a family can be probed.
pub(super) fn no_family(v4: bool) -> String {
    format!("this machine has no IPv{}", if v4 { 4 } else { 6 })
}
