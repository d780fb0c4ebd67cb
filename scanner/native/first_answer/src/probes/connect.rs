//! New probes, and further connections of probes without an answer.

use std::net::SocketAddr;

use firstflight_core::targets::{Target, TargetRef};

use super::{Flight, Handle, Phase, Probes};
use crate::exchange::Exchange;
use crate::sizes::MOST_SIZES;

/// Numbers of attempts reserved for each probe to a target, in connection IDs. A probe makes at most five attempts.
pub(super) const SERIES: u8 = 8;
const _: () = assert!(5 + SERIES as usize * (MOST_SIZES - 1) <= u8::MAX as usize);

impl Probes {
    /// Adds a probe of `target` from number `port` to the connection ID `dcid`. [`line_and_group`] returns the second
    /// argument.
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

    /// Creates a probe's next connection, to the connection ID `dcid`. It keeps only the ICMP message of the
    /// connection before, and the remark about the message.
    pub fn next_attempt(&mut self, handle: Handle, dcid: [u8; 8]) -> Option<Box<Exchange>> {
        let flight = self.table.get(handle)?;
        let cid = self
            .cids
            .of(flight.line, flight.attempt + 1 + flight.series * SERIES);
        let mut next = Box::new(new_exchange(self.settings.reserved, dcid, cid));
        // Only silence leads to another connection, so a remark can only be about ICMP.
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

/// Returns a connection of version 1 or a reserved version.
fn new_exchange(reserved: bool, dcid: [u8; 8], cid: [u8; 8]) -> Exchange {
    if reserved {
        Exchange::reserved(dcid, cid)
    } else {
        Exchange::new(dcid, cid)
    }
}

/// Returns a target's line number and group, for [`Probes::connect`].
pub fn line_and_group(target: &Target<'_>) -> (u32, u32) {
    (target.line, target.group)
}

/// Returns why no target in a family can be probed.
pub fn no_family(v4: bool) -> String {
    format!("this machine has no IPv{}", if v4 { 4 } else { 6 })
}
