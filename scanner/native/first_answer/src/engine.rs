//! The run: one thread that receives, ends and sends probes until all targets are done.
//!
//! `run` calls `sender`, and both call [`Probes`], which calls neither.

mod gather;
#[cfg(test)]
mod loopback;
mod run;
mod sender;

use std::sync::Arc;

use firstflight_core::Failure;
use firstflight_core::clock::{Clock, Mono};
use firstflight_core::egress::Egress;
use firstflight_core::feed::Schedule;
use firstflight_core::progress::Progress;
use firstflight_core::receive::Receiver;
use firstflight_core::records::Writer;
use firstflight_core::targets::{Backlog, TargetList};
use rand_chacha::ChaCha8Rng;

use crate::finished::FinishedProbe;
use crate::pace::Pace;
use crate::packets::Packets;
use crate::probes::{Probes, StampKey};
use sender::Sender;

/// All parts of a run.
pub struct Engine {
    probes: Probes,
    sender: Sender,
    receiver: Receiver,
    backlog: Backlog,
    /// There is a list: then its end is the end of the run.
    listed: bool,
    schedule: Schedule,
    writer: Writer<FinishedProbe>,
    progress: Progress,
    clock: Clock,
    pace: Pace,
    stopping: bool,
    /// When the loop last began to receive, and how much it read then.
    resumed_at: Mono,
    read: usize,
    /// When new probes of the list last left.
    sent_new: Mono,
    /// When records were last passed on to the writer.
    submitted: Mono,
}

/// The parts that are made outside.
pub struct Parts {
    pub clock: Clock,
    /// What is to be probed, in the order to do it.
    pub list: Arc<TargetList>,
    /// Whether a list was given.
    pub listed: bool,
    pub backlog: Backlog,
    pub schedule: Schedule,
    pub egress: Egress<StampKey>,
    pub pace: Pace,
    pub packets: Packets,
    pub probes: Probes,
    /// Chooses source ports.
    pub random: ChaCha8Rng,
    pub writer: Writer<FinishedProbe>,
    pub progress: Progress,
}

impl Engine {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Result<Engine, Failure> {
        let Parts { clock, egress, .. } = parts;
        Ok(Engine {
            receiver: Receiver::new(egress.ports(), clock)?,
            sender: Sender::new(egress, parts.packets, parts.list, parts.random, clock),
            probes: parts.probes,
            backlog: parts.backlog,
            listed: parts.listed,
            schedule: parts.schedule,
            writer: parts.writer,
            progress: parts.progress,
            clock,
            pace: parts.pace,
            stopping: false,
            resumed_at: 0,
            read: 0,
            sent_new: 0,
            submitted: 0,
        })
    }
}
