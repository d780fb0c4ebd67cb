//! Answered probes whose servers are listened to before the close: nothing is sent to them, and what they
//! retransmit is recorded.

use firstflight_core::clock::{Mono, Stamp};
use firstflight_core::targets::TargetRef;

use super::{Handle, Phase, Probes};

/// A server that sends so many datagrams is not listened to any longer.
const MOST_DATAGRAMS: u16 = 1000;

impl Probes {
    /// A probe is over: returns whether its server is listened to from now on. Only probes of the list are,
    /// and only servers that answered and have not closed.
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

    /// Takes a datagram of a server that is listened to; `stray`: it has another connection ID.
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

    /// Ends what was listened to long enough before `drained`, or at all if the run is being stopped.
    pub(super) fn expire_listening(&mut self, drained: Mono) {
        let due = if self.stopping { Mono::MAX } else { drained };
        while let Some(handle) = self.deadlines.listens.pop(due) {
            self.end_listening(handle, drained);
        }
    }

    /// Ends a probe whose server is listened to.
    pub(super) fn end_listening(&mut self, handle: Handle, now: Mono) {
        if let Some(flight) = self.table.get(handle)
            && flight.phase == Phase::Listening
        {
            flight.listening = flight.listening.map(|since| now.saturating_sub(since));
            self.end(handle, now);
        }
    }
}
