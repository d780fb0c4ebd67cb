//! The run: one thread that sends, receives and ends probes until all targets are done.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rustix::event::{Timespec, epoll};

use crate::cid::CidKey;
use crate::clock::Clock;
use crate::counts::Counts;
use crate::door::Door;
use crate::ended::Ended;
use crate::error::Failure;
use crate::evidence::Stamp;
use crate::feed::Feed;
use crate::groups::Groups;
use crate::hold::Hold;
use crate::mmsg::Inbox;
use crate::pace::{Mono, Pacer};
use crate::packets::Packets;
use crate::ports::Ports;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::skips::Skips;
use crate::slots::Slots;
use crate::stamps::Requests;
use crate::table::{Handle, Phase, Table};
use crate::targets::TargetList;
use crate::timers::Timers;
use crate::writer::Writer;

/// Most probes in flight: bounds memory at about 400 bytes each. More would wait only at rates above
/// 40,000 per second with the default waiting times and silent targets.
const MOST_IN_FLIGHT: usize = 250_000;

/// Time from one round to the next when much is sent, so that a round has several packets to deal with.
const PAUSE: Mono = 2_000_000;

/// At high rates closes wait for so many others of their port, but not longer than this.
const CLOSES: usize = 16;
const CLOSE_WAIT: Mono = 10_000_000;

/// Longest time without looking at the clock.
const LONGEST_WAIT: Mono = 100_000_000;

/// How many records are handed to the writer at once; with more than so many that it does not take, nothing new is sent.
pub const RECORDS: usize = 256;
const MOST_RECORDS: usize = 65_536;

/// What a run goes by.
pub struct Settings {
    pub window: Mono,
    pub settle: Mono,
    pub linger: Mono,
    pub attempts: u8,
    /// UDP payload of Initials on IPv4, on IPv6.
    pub sizes: [u16; 2],
}

/// What is still to be sent from one port, tokens first.
#[derive(Default)]
pub struct Outgoing {
    pub tokens: VecDeque<Handle>,
    pub closes: VecDeque<Handle>,
    /// When the first of `closes` was put there.
    since: Mono,
}

impl Outgoing {
    /// Adds a close.
    pub fn close(&mut self, handle: Handle, now: Mono) {
        if self.closes.is_empty() {
            self.since = now;
        }
        self.closes.push_back(handle);
    }

    /// Whether it is time to send; `in_bulk`: closes may wait for company.
    pub fn is_due(&self, now: Mono, in_bulk: bool) -> bool {
        let old = now >= self.since + CLOSE_WAIT;
        !self.tokens.is_empty()
            || !self.closes.is_empty() && (!in_bulk || old || self.closes.len() >= CLOSES)
    }
}

/// A probe's window: valid for one attempt before or after a Retry.
pub struct Window {
    pub handle: Handle,
    pub attempt: u8,
    pub after_token: bool,
}

/// Everything that a run consists of.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) list: Arc<TargetList>,
    /// Numbers of the targets that are still to be taken; the list is in random order.
    pub(crate) fresh: Range<u32>,
    /// Whether there is a list at all: then its end is the end of the run.
    listed: bool,
    pub(crate) feed: Option<Feed>,
    pub(crate) slots: Slots,
    pub(crate) skips: Skips,
    pub(crate) groups: Groups,
    /// What was wrong with the feed.
    pub(crate) broken: Option<Failure>,
    /// No contact was given.
    pub(crate) anonymous: bool,
    pub(crate) door: Door,
    pub(crate) ports: Ports,
    pub(crate) requests: Vec<Requests>,
    pub(crate) outgoing: Vec<Outgoing>,
    pub(crate) packets: Packets,
    pub(crate) cids: CidKey,
    pub(crate) table: Table,
    pub(crate) pacer: Pacer,
    pub(crate) hold: Hold,
    pub(crate) windows: Timers<Window>,
    pub(crate) settles: Timers<Handle>,
    pub(crate) lingers: Timers<Handle>,
    /// Probes whose next connection is to be opened.
    pub(crate) again: VecDeque<Handle>,
    pub(crate) clock: Clock,
    /// UTC when `clock` was 0. Planned times are told by it, so that a clock that is set does not move them.
    pub(crate) start: Stamp,
    pub(crate) counts: Counts,
    pub(crate) stopping: bool,
    /// When the present round began.
    round: Mono,
    /// Up to when everything that came is read.
    pub(crate) drained: Mono,
    /// Chooses source ports.
    pub(crate) random: ChaCha8Rng,
    pub(crate) records: Vec<Ended>,
    pub(crate) writer: Writer,
    epoll: OwnedFd,
    pub(crate) inbox: Option<Inbox>,
    pub(crate) errors: Option<Inbox>,
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
    pub door: Door,
    pub ports: Ports,
    pub packets: Packets,
    pub cids: CidKey,
    pub table: Table,
    pub hold: Hold,
    pub rate: f64,
    pub random: ChaCha8Rng,
    pub counts: Counts,
    pub writer: Writer,
    pub progress: Progress,
}

/// What is left when a run is over.
pub struct Finished {
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
        let no_epoll =
            |e: rustix::io::Errno| Failure::Usage(format!("the system gives no epoll: {e}"));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(no_epoll)?;
        for (number, port) in parts.ports.iter().enumerate() {
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, port.as_fd(), data, epoll::EventFlags::IN).map_err(no_epoll)?;
        }
        let ports = parts.ports.len();
        let clock = parts.clock;
        Ok(Engine {
            windows: Timers::new(parts.settings.window),
            settles: Timers::new(parts.settings.settle),
            lingers: Timers::new(parts.settings.linger),
            settings: parts.settings,
            fresh: 0..parts.list.len() as u32,
            list: parts.list,
            listed: parts.listed,
            feed: parts.feed,
            slots: Slots::default(),
            skips: parts.skips,
            groups: Groups::default(),
            broken: None,
            anonymous: parts.anonymous,
            door: parts.door,
            ports: parts.ports,
            requests: (0..ports).map(|_| Requests::default()).collect(),
            outgoing: (0..ports).map(|_| Outgoing::default()).collect(),
            packets: parts.packets,
            cids: parts.cids,
            table: parts.table,
            pacer: Pacer::new(parts.rate, clock.now()),
            hold: parts.hold,
            again: VecDeque::new(),
            clock,
            start: parts.start,
            counts: parts.counts,
            stopping: false,
            round: 0,
            drained: 0,
            random: parts.random,
            records: Vec::with_capacity(RECORDS),
            writer: parts.writer,
            epoll,
            inbox: Some(Inbox::new()),
            errors: Some(Inbox::new()),
            progress: parts.progress,
        })
    }

    /// Works until all is done, or a signal came and the open probes have ended (a second one: at once).
    pub fn run(mut self, signals: &Signals) -> Finished {
        let mut failed = false;
        while !self.is_done() {
            self.stopping |= signals.stop();
            failed = self.writer.has_failed() || self.skips.failure().is_some();
            if failed || signals.stop_now() {
                self.stopping = true;
                break;
            }
            self.hear();
            let drained = self.receive_all();
            self.end_what_is_due(drained);
            self.send_all();
            self.hand_over();
            let (targets, waiting) = (self.targets_left(), self.table.len());
            self.progress.tick(&self.counts, targets, waiting);
            self.wait();
        }
        let interrupted = self.stopping && !failed && self.broken.is_none();
        self.part();
        self.skip_all();
        self.counts.not_done += self.targets_left() as u64;
        for handle in self.table.handles() {
            match self.table.get(handle).map(|flight| flight.phase) {
                Some(Phase::Lingering) => self.finish(handle),
                _ => self.abandon(handle),
            }
        }
        self.writer.write(std::mem::take(&mut self.records));
        self.progress.finish();
        Finished {
            counts: self.counts,
            highest: self.pacer.highest(),
            interrupted,
            written: match self.broken.or(self.skips.failure()) {
                None => self.writer.finish(),
                Some(failure) => self.writer.finish().and(Err(failure)),
            },
        }
    }

    fn is_done(&self) -> bool {
        let nothing_new = if self.listed {
            self.targets_left() == 0
        } else {
            self.slots.ended && self.slots.is_empty()
        };
        (self.stopping || nothing_new) && self.table.len() == 0
    }

    /// Targets of the list that were not taken yet.
    fn targets_left(&self) -> usize {
        self.fresh.len() + self.hold.held() + self.groups.waiting()
    }

    /// Sleeps until something is due or comes, at least a little.
    fn wait(&mut self) {
        let now = self.clock.now();
        if self.in_bulk() {
            // One round for several packets is cheaper than one for each; what comes meanwhile has
            // its stamp from the kernel.
            if now < self.round + PAUSE {
                let nap = self.round + PAUSE - now;
                std::thread::sleep(std::time::Duration::from_nanos(nap));
            }
            self.round = self.clock.now();
            return;
        }
        let busy = self
            .outgoing
            .iter()
            .any(|out| !out.tokens.is_empty() || !out.closes.is_empty());
        let can_send = !self.stopping && self.room_in_flight() > 0;
        let next_new = match (
            can_send && (!self.fresh.is_empty() || self.groups.has_freed()),
            self.hold.next_release().filter(|_| can_send),
        ) {
            (true, _) => Some(self.pacer.next_new()),
            (false, Some(release)) => Some(release.max(self.pacer.next_new())),
            (false, None) => None,
        };
        let due = [
            next_new,
            self.windows.next(),
            self.settles.next(),
            self.lingers.next(),
            self.slots.next(),
        ];
        let mut until = due
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now + LONGEST_WAIT)
            .min(now + LONGEST_WAIT);
        if busy || !self.again.is_empty() {
            until = until.min(now + 1_000_000);
        }
        let left = until.saturating_sub(self.clock.now());
        if left == 0 {
            return;
        }
        let timeout = Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        let mut room = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        // A signal ends the wait, as it should.
        let _ = epoll::wait(&self.epoll, &mut room[..], Some(&timeout));
    }

    /// Numbers of the ports with something to read.
    pub(crate) fn ready(&self) -> Vec<usize> {
        let empty = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        let mut events = vec![empty; self.ports.len()];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let n = epoll::wait(&self.epoll, &mut events[..], Some(&at_once)).unwrap_or(0);
        events[..n]
            .iter()
            .map(|event| event.data.u64() as usize)
            .collect()
    }

    /// Whether so much is sent that packets are better dealt with several at a time.
    pub(crate) fn in_bulk(&self) -> bool {
        self.pacer.batch() > 10
    }

    /// How many more probes may be in flight.
    pub(crate) fn room_in_flight(&self) -> usize {
        if self.records.len() > MOST_RECORDS {
            return 0;
        }
        MOST_IN_FLIGHT.saturating_sub(self.table.len())
    }
}

/// A wait as a difference of stamps.
pub fn as_stamp(wait: Mono) -> Stamp {
    Stamp::try_from(wait).unwrap_or(Stamp::MAX)
}
