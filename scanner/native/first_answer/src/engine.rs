//! The run: one thread receives datagrams, completes probes and sends datagrams until all targets are done.
//!
//! `run` uses `sender`. Both use [`Probes`], which uses neither.

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
    /// Whether the run has a list. The run then finishes after the list.
    listed: bool,
    schedule: Schedule,
    writer: Writer<FinishedProbe>,
    progress: Progress,
    clock: Clock,
    pace: Pace,
    stopping: bool,
    /// When the last pass started, and how many events it has read.
    resumed_at: Mono,
    read: usize,
    /// When new probes of the list were last sent.
    sent_new: Mono,
    /// When records were last passed to the writer.
    submitted: Mono,
}

/// The parts that the caller makes.
pub struct Parts {
    pub clock: Clock,
    /// The targets, in the order of their probes.
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
    /// Assembles the parts.
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
