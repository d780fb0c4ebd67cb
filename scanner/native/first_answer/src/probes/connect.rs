//! New probes, and further connections of probes that got no answer.

use std::net::SocketAddr;

use firstflight_core::targets::{Target, TargetRef};

use super::{Flight, Handle, Phase, Probes};
use crate::exchange::Exchange;
use crate::sizes::MOST_SIZES;

/// Numbers of attempts that each probe of a target has for itself in its connection IDs: up to five are made.
pub(super) const SERIES: u8 = 8;
const _: () = assert!(5 + SERIES as usize * (MOST_SIZES - 1) <= u8::MAX as usize);

impl Probes {
    /// Adds a probe of `target` (its line and group as [`line_and_group`] returns them), from number `port`
    /// to the connection ID `dcid`.
    pub fn connect(
        &mut self,
        target: TargetRef,
        (line, group): (u32, u32),
        to: SocketAddr,
        port: u16,
        dcid: [u8; 8],
    ) -> Handle {
        let (initial_size, series) = self.settings.sizes.of(&target, to.is_ipv6());
        let cid = self.cids.of(line, 1 + series * SERIES);
        let handle = self.table.insert(Flight {
            target,
            line,
            to,
            port,
            group,
            attempt: 1,
            phase: Phase::Open,
            cut_off: false,
            initial_size,
            series,
            listening: None,
            token_sent: false,
            after_close: 0,
            ttl: None,
            local: None,
            first_sent: None,
            sent_at: None,
            sent_about: 0,
            exchange: new_exchange(self.settings.reserved, dcid, cid),
        });
        self.table.index(handle);
        handle
    }

    /// Returns the next connection of a probe, to the connection ID `dcid`. Everything in it is new; only
    /// ICMP of the connection before is kept, with the remark on it.
    pub fn next_attempt(&mut self, handle: Handle, dcid: [u8; 8]) -> Option<Box<Exchange>> {
        let flight = self.table.get(handle)?;
        let cid = self
            .cids
            .of(flight.line, flight.attempt + 1 + flight.series * SERIES);
        let mut next = Box::new(new_exchange(self.settings.reserved, dcid, cid));
        // What leads to another connection is silence, so a remark can only be about ICMP.
        if let Some(rare) = flight.exchange.rare.as_deref()
            && let Some((kind, code)) = rare.icmp
        {
            next.icmp(kind, code, false);
            if let Some(remark) = &rare.detail {
                next.note(|| remark.clone());
            }
        }
        Some(next)
    }
}

/// Returns a connection of version 1, or of a reserved version.
fn new_exchange(reserved: bool, dcid: [u8; 8], cid: [u8; 8]) -> Exchange {
    if reserved {
        Exchange::reserved(dcid, cid)
    } else {
        Exchange::new(dcid, cid)
    }
}

/// Returns the line number and the group of a target, as [`Probes::connect`] takes them.
pub fn line_and_group(target: &Target<'_>) -> (u32, u32) {
    (target.line, target.group)
}

/// Why no target of a family can be probed.
pub fn no_family(v4: bool) -> String {
    format!("this machine has no IPv{}", if v4 { 4 } else { 6 })
}
