//! The run: one thread receives datagrams, handles timers and sends datagrams until all targets are done.
//!
//! `run` is the loop. `sender` writes and sends datagrams. Both use [`Flights`], which uses neither of them.

mod run;
mod sender;

use std::sync::Arc;

use firstflight_core::Failure;
use firstflight_core::clock::{Clock, Mono};
use firstflight_core::egress::Egress;
use firstflight_core::feed::Pauses;
use firstflight_core::progress::Progress;
use firstflight_core::receive::Receiver;
use firstflight_core::records::Writer;
use firstflight_core::targets::{Backlog, TargetList};
use rand_chacha::ChaCha8Rng;

use crate::finished::Finished;
use crate::flights::{Flights, StampKey};
use crate::request::Requests;
use sender::Sender;

/// All parts of a run.
pub struct Engine {
    flights: Flights,
    sender: Sender,
    receiver: Receiver,
    backlog: Backlog,
    pauses: Pauses,
    writer: Writer<Finished>,
    progress: Progress,
    clock: Clock,
    stopping: bool,
    /// When the last pass of the loop started.
    resumed_at: Mono,
}

/// The parts that the caller makes.
pub struct Parts {
    pub clock: Clock,
    /// The targets, in the order of their connections.
    pub list: Arc<TargetList>,
    pub backlog: Backlog,
    pub pauses: Pauses,
    pub egress: Egress<StampKey>,
    pub flights: Flights,
    pub requests: Requests,
    /// Chooses source ports and destination connection IDs.
    pub random: ChaCha8Rng,
    pub writer: Writer<Finished>,
    pub progress: Progress,
}

impl Engine {
    /// Assembles the parts.
    pub fn new(parts: Parts) -> Result<Engine, Failure> {
        let Parts { clock, egress, .. } = parts;
        Ok(Engine {
            receiver: Receiver::new(egress.ports(), clock)?,
            sender: Sender::new(egress, parts.list, parts.requests, parts.random, clock),
            flights: parts.flights,
            backlog: parts.backlog,
            pauses: parts.pauses,
            writer: parts.writer,
            progress: parts.progress,
            clock,
            stopping: false,
            resumed_at: 0,
        })
    }
}
