//! Listens to answered servers before the close: sends them nothing, and records their retransmissions.

use firstflight_core::clock::{Mono, Stamp};
use firstflight_core::targets::TargetRef;

use super::{Handle, Phase, Probes};

/// Listening stops after this number of datagrams from a server.
const MOST_DATAGRAMS: u16 = 1000;

impl Probes {
    /// Starts to listen at the end of a probe, if possible, and returns whether it does. Only probes of the list
    /// listen, and only to servers that answered and did not close.
    pub(super) fn listen(&mut self, handle: Handle, now: Mono) -> bool {
        if self.settings.listen.is_none() || self.stopping {
            return false;
        }
        let Some(flight) = self.table.get(handle) else {
            return false;
        };
        let wanted = flight.phase == Phase::Open
            && matches!(flight.target, TargetRef::Listed(_))
            && flight.exchange.has_state();
        if wanted {
            flight.phase = Phase::Listening;
            flight.listening = Some(now);
            flight.exchange.listen();
            self.deadlines.listens.start(now, handle);
        }
        wanted
    }

    /// Processes a datagram while a probe listens. `stray`: it has another connection ID.
    pub(super) fn hear(
        &mut self,
        handle: Handle,
        at: Stamp,
        bytes: &mut [u8],
        stray: bool,
        now: Mono,
    ) {
        let Some(flight) = self.table.get(handle) else {
            return;
        };
        if stray {
            flight.exchange.receive_stray(bytes);
            return;
        }
        flight.exchange.receive(at, bytes);
        if flight.exchange.datagrams >= MOST_DATAGRAMS {
            self.end_listening(handle, now);
        }
    }

    /// Stops listening that started long enough before `drained`. If the run is stopping, stops all listening.
    pub(super) fn expire_listening(&mut self, drained: Mono) {
        let due = if self.stopping { Mono::MAX } else { drained };
        while let Some(handle) = self.deadlines.listens.pop(due) {
            self.end_listening(handle, drained);
        }
    }

    /// Stops a probe's listening, and completes the probe.
    pub(super) fn end_listening(&mut self, handle: Handle, now: Mono) {
        if let Some(flight) = self.table.get(handle)
            && flight.phase == Phase::Listening
        {
            flight.listening = flight.listening.map(|since| now.saturating_sub(since));
            self.end(handle, now);
        }
    }
}
