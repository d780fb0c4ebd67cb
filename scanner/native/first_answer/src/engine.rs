//! The engine: all that a run consists of. What is done with it stands in the modules below; each calls only those named
//! before it: ending, receiving, opening, batch, sending, feeding, round.

mod batch;
mod completion;
mod connect;
mod feeding;
mod receiving;
mod run;
mod sending;

use std::collections::VecDeque;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;

use crate::cid::CidKey;
use crate::counts::Counts;
use crate::finished::FinishedProbe;
use crate::packets::Packets;
use crate::port_queue::PortQueue;
use crate::table::{Handle, Table};
use firstflight_core::clock::Stamp;
use firstflight_core::clock::{Clock, Mono};
use firstflight_core::egress::Egress;
use firstflight_core::egress::mmsg::Inbox;
use firstflight_core::egress::ports::Ports;
use firstflight_core::egress::stamps::Requests;
use firstflight_core::error::Failure;
use firstflight_core::feed::Feed;
use firstflight_core::feed::planned::PlannedProbes;
use firstflight_core::feed::skips::Skips;
use firstflight_core::progress::Progress;
use firstflight_core::rate_limit::RateLimits;
use firstflight_core::rate_limit::pacer::Pacer;
use firstflight_core::receive::poll::Poll;
use firstflight_core::records::writer::Writer;
use firstflight_core::targets::TargetList;
use firstflight_core::targets::backlog::Backlog;
use firstflight_core::timers::Timers;

/// Most probes in flight: bounds memory at about 400 bytes each. More would wait only at rates above
/// 40,000 per second with the default waiting times and silent targets.
const MOST_IN_FLIGHT: usize = 250_000;

/// What a run goes by.
pub struct Settings {
    pub window: Mono,
    pub settle: Mono,
    pub cooldown: Mono,
    pub attempts: u8,
    /// UDP payload of Initials on IPv4, on IPv6.
    pub sizes: [u16; 2],
}

/// A probe's window: valid for one attempt before or after a Retry.
struct Window {
    handle: Handle,
    attempt: u8,
    after_token: bool,
}

/// A datagram that a transmit stamp is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    handle: Handle,
    attempt: u8,
    /// The Initial with the Retry's token rather than the connection's first.
    token: bool,
}

/// Everything that a run consists of.
pub struct Engine {
    settings: Settings,
    list: Arc<TargetList>,
    backlog: Backlog,
    /// Whether there is a list at all: then its end is the end of the run.
    listed: bool,
    feed: Option<Feed>,
    planned: PlannedProbes,
    skips: Skips,
    /// What was wrong with the feed.
    broken: Option<Failure>,
    /// No contact was given.
    anonymous: bool,
    egress: Egress,
    ports: Ports,
    poll: Poll,
    requests: Vec<Requests<Sent>>,
    outgoing: Vec<PortQueue>,
    packets: Packets,
    cids: CidKey,
    table: Table,
    pacer: Pacer,
    windows: Timers<Window>,
    settles: Timers<Handle>,
    cooldowns: Timers<Handle>,
    /// Probes whose next connection is to be opened.
    again: VecDeque<Handle>,
    clock: Clock,
    /// UTC when `clock` was 0. Planned times are told by it, so that a clock that is set does not move them.
    start: Stamp,
    counts: Counts,
    stopping: bool,
    /// When the present round began.
    round: Mono,
    /// Up to when everything that came is read.
    drained: Mono,
    /// Chooses source ports.
    random: ChaCha8Rng,
    writer: Writer<FinishedProbe>,
    inbox: Option<Inbox>,
    errors: Option<Inbox>,
    progress: Progress,
}

/// The parts that are made outside.
pub struct Parts {
    pub settings: Settings,
    pub clock: Clock,
    /// UTC when `clock` was 0.
    pub start: Stamp,
    /// Whether a list was given, and the feed, if there is one.
    pub listed: bool,
    pub feed: Option<Feed>,
    pub skips: Skips,
    /// No contact was given.
    pub anonymous: bool,
    /// What is to be probed, in the order to do it.
    pub list: Arc<TargetList>,
    pub egress: Egress,
    pub ports: Ports,
    pub packets: Packets,
    pub cids: CidKey,
    pub table: Table,
    pub limits: RateLimits,
    pub rate: f64,
    pub random: ChaCha8Rng,
    pub counts: Counts,
    pub writer: Writer<FinishedProbe>,
    pub progress: Progress,
}

/// What is left when a run is over.
pub struct RunResult {
    pub counts: Counts,
    /// Most new probes, most datagrams in any second.
    pub highest: (u64, u64),
    pub interrupted: bool,
    /// Number of the last segment, or why records could not be written.
    pub written: Result<u32, Failure>,
}

impl Engine {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Result<Engine, Failure> {
        let ports = parts.ports.len();
        let clock = parts.clock;
        Ok(Engine {
            poll: Poll::new(&parts.ports)?,
            windows: Timers::new(parts.settings.window),
            settles: Timers::new(parts.settings.settle),
            cooldowns: Timers::new(parts.settings.cooldown),
            settings: parts.settings,
            backlog: Backlog::new(parts.list.clone(), parts.limits),
            list: parts.list,
            listed: parts.listed,
            feed: parts.feed,
            planned: PlannedProbes::default(),
            skips: parts.skips,
            broken: None,
            anonymous: parts.anonymous,
            egress: parts.egress,
            ports: parts.ports,
            requests: (0..ports).map(|_| Requests::default()).collect(),
            outgoing: (0..ports).map(|_| PortQueue::default()).collect(),
            packets: parts.packets,
            cids: parts.cids,
            table: parts.table,
            pacer: Pacer::new(parts.rate, clock.now()),
            again: VecDeque::new(),
            clock,
            start: parts.start,
            counts: parts.counts,
            stopping: false,
            round: 0,
            drained: 0,
            random: parts.random,
            writer: parts.writer,
            inbox: Some(Inbox::new()),
            errors: Some(Inbox::of_errors()),
            progress: parts.progress,
        })
    }

    /// Whether so much is sent that packets are better dealt with several at a time.
    fn in_bulk(&self) -> bool {
        self.pacer.batch() > 10
    }

    /// How many more probes may be in flight.
    fn room_in_flight(&self) -> usize {
        if self.writer.is_behind() {
            return 0;
        }
        MOST_IN_FLIGHT.saturating_sub(self.table.len())
    }
}
