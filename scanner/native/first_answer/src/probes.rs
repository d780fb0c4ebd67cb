//! All probes in flight, as a state machine. The inputs are time, stamps, ICMP messages and datagrams. The outputs are
//! finished probes, and handles of probes with datagrams to send. The state machine has no socket and no clock, so
//! tests call it directly.
//!
//! `connect` adds probes, `sent` records sent datagrams, `receive` processes received datagrams, and `completion`
//! completes probes. Before that, `listen` waits for retransmissions.

mod completion;
mod connect;
mod listen;
mod queue;
mod receive;
mod sent;
mod table;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use firstflight_core::clock::Mono;
use firstflight_core::timers::Timers;

use crate::counts::Counts;
use crate::ecn::Mark;
use crate::finished::FinishedProbe;
use crate::sizes::InitialSizes;
pub use connect::{line_and_group, no_family};
use firstflight_core::cid::CidKey;
use queue::SendQueue;
pub use sent::StampKey;
pub use table::{Flight, Handle};
use table::{Phase, Table};

/// Maximum number of probes in flight. It bounds memory, at about 400 bytes each. With the default waiting times and
/// silent targets, probes reach it only at rates above 40,000 per second. Unit tests fill a smaller table.
const MOST_IN_FLIGHT: usize = if cfg!(test) { 2_500 } else { 250_000 };

/// Upper bound for the average number of datagrams per probe: the Initial, and a close, a token or another attempt.
pub const PER_PROBE: u64 = 2;

/// How probes are sent and how long they wait.
#[derive(Clone)]
pub struct Settings {
    /// Time from an Initial without an answer until its attempt is finished.
    pub window: Mono,
    /// Time from the ServerHello until the probe is finished.
    pub settle: Mono,
    /// Time after the end of a probe during which late datagrams are counted.
    pub cooldown: Mono,
    /// Maximum number of connections per target.
    pub attempts: u8,
    /// UDP payload of Initials.
    pub sizes: InitialSizes,
    /// How long answered probes of the list listen before their close.
    pub listen: Option<Mono>,
    /// Initials have a reserved version (RFC 9000 15).
    pub reserved: bool,
    /// ECN mark of datagrams.
    pub ecn: Option<Mark>,
}

/// A datagram's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A target's first Initial.
    New,
    /// The first Initial of another connection to a target.
    NextAttempt,
    /// The Initial with a Retry's token.
    Token,
    /// The close of an answered probe.
    Close,
}

impl Kind {
    /// Returns the phase in which a probe may send it. A probe may have finished while the datagram waited.
    fn phase(self) -> Phase {
        match self {
            Kind::New | Kind::Token => Phase::Open,
            Kind::NextAttempt => Phase::Queued,
            Kind::Close => Phase::Cooldown,
        }
    }
}

/// An attempt's answer window, before or after a Retry.
struct Window {
    handle: Handle,
    attempt: u8,
    after_token: bool,
}

/// Deadlines of probes.
struct Deadlines {
    windows: Timers<Window>,
    settles: Timers<Handle>,
    listens: Timers<Handle>,
    cooldowns: Timers<Handle>,
}

/// All probes in flight.
pub struct Probes {
    settings: Settings,
    cids: CidKey,
    /// Bound addresses, by number of the port.
    locals: Vec<SocketAddr>,
    table: Table,
    deadlines: Deadlines,
    queue: SendQueue,
    counts: Counts,
    finished: Vec<FinishedProbe>,
    /// The run is stopping: no further connections.
    stopping: bool,
}

impl Probes {
    /// Starts without probes. `locals`: bound addresses, by number of the port. `table_key`: secret, so that nobody can
    /// choose addresses that collide in the table. `counts`: earlier counts of the run.
    pub fn new(
        settings: Settings,
        cids: CidKey,
        locals: Vec<SocketAddr>,
        table_key: [u64; 3],
        counts: Counts,
    ) -> Probes {
        Probes {
            deadlines: Deadlines {
                windows: Timers::new(settings.window),
                settles: Timers::new(settings.settle),
                listens: Timers::new(settings.listen.unwrap_or(0)),
                cooldowns: Timers::new(settings.cooldown),
            },
            settings,
            cids,
            queue: SendQueue::new(locals.len()),
            locals,
            table: Table::new(table_key),
            counts,
            finished: Vec::new(),
            stopping: false,
        }
    }

    /// Returns the number of probes in flight.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns how many more probes may be in flight.
    pub fn room(&self) -> usize {
        MOST_IN_FLIGHT.saturating_sub(self.table.len())
    }

    /// Returns the counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the counters, to count targets.
    pub fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Returns the probe, if it may send a datagram of this kind.
    #[inline]
    pub fn sending(&mut self, handle: Handle, kind: Kind) -> Option<&Flight> {
        self.table
            .get(handle)
            .filter(|flight| flight.phase == kind.phase())
            .map(|flight| &*flight)
    }

    /// Returns the queue of datagrams to send.
    pub fn queue(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// Returns the probes that finished since the last call.
    pub fn finished(&mut self) -> impl Iterator<Item = FinishedProbe> + '_ {
        self.finished.drain(..)
    }

    /// Returns when the next action is due: a deadline, or queued datagrams, which can be sent at `sendable`.
    pub fn next_at(&self, sendable: Mono) -> Option<Mono> {
        let deadlines = &self.deadlines;
        let queued = (!self.queue.is_empty()).then_some(sendable);
        let due = [
            deadlines.windows.next(),
            deadlines.settles.next(),
            deadlines.listens.next(),
            deadlines.cooldowns.next(),
            queued,
        ];
        due.into_iter().flatten().min()
    }
}
