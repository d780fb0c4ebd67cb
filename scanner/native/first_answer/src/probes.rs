//! All probes in flight, as one state machine: time, stamps, ICMP messages and datagrams go in; finished
//! probes and handles of probes with something to send come out. No socket and no clock, so tests feed it
//! by hand.
//!
//! `connect` adds probes, `sent` takes what left, `receive` what came, `completion` ends them, `listen` waits
//! for retransmissions before that.

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

/// Most probes in flight: bounds memory at about 400 bytes each. More would wait only at rates above
/// 40,000 per second with the default waiting times and silent targets. Unit tests fill a smaller one.
const MOST_IN_FLIGHT: usize = if cfg!(test) { 2_500 } else { 250_000 };

/// Datagrams that a probe takes on average at most: the Initial, and a close, a token or another attempt.
pub const PER_PROBE: u64 = 2;

/// How probes are sent and how long they wait.
#[derive(Clone)]
pub struct Settings {
    /// From an Initial to the end of its attempt, without an answer.
    pub window: Mono,
    /// From the ServerHello to the end of the probe.
    pub settle: Mono,
    /// After the end of a probe, during which late datagrams are counted.
    pub cooldown: Mono,
    /// Connections tried per target.
    pub attempts: u8,
    /// UDP payload of Initials.
    pub sizes: InitialSizes,
    /// How long answered probes of the list are listened to before their close.
    pub listen: Option<Mono>,
    /// Initials have a reserved version (RFC 9000 15).
    pub reserved: bool,
    /// How datagrams are marked.
    pub ecn: Option<Mark>,
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first Initial of a target.
    New,
    /// The first Initial of another connection to a target.
    NextAttempt,
    /// The Initial with a Retry's token.
    Token,
    /// The close of an answered probe.
    Close,
}

impl Kind {
    /// Returns the phase of a probe that may send it; a probe may have ended while the datagram waited.
    fn phase(self) -> Phase {
        match self {
            Kind::New | Kind::Token => Phase::Open,
            Kind::NextAttempt => Phase::Queued,
            Kind::Close => Phase::Cooldown,
        }
    }
}

/// A probe's window: valid for one attempt before or after a Retry.
struct Window {
    handle: Handle,
    attempt: u8,
    after_token: bool,
}

/// What falls due when.
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
    /// The run is being stopped: no further connections.
    stopping: bool,
}

impl Probes {
    /// No probes yet. `locals`: bound addresses, by number of the port; `table_key`: keeps others from
    /// choosing addresses that collide in the table; `counts`: what the run counted before.
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

    /// Returns the probe, if a datagram of this kind may be sent for it.
    #[inline]
    pub fn sending(&mut self, handle: Handle, kind: Kind) -> Option<&Flight> {
        self.table
            .get(handle)
            .filter(|flight| flight.phase == kind.phase())
            .map(|flight| &*flight)
    }

    /// Returns what waits to be sent.
    pub fn queue(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// Returns the probes that finished since the last call.
    pub fn finished(&mut self) -> impl Iterator<Item = FinishedProbe> + '_ {
        self.finished.drain(..)
    }

    /// Returns when something falls due: a deadline, or what is queued, which can be sent at `sendable`.
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
