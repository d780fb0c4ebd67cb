//! The work that the core's loop calls: receive, expire, send, write, wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use firstflight_core::Failure;
use firstflight_core::clock::{Clock, Mono, Stamp, wall};
use firstflight_core::egress::{BATCH, Class, Egress};
use firstflight_core::progress::Progress;
use firstflight_core::receive::{Event, Receiver};
use firstflight_core::records::Writer;
use firstflight_core::run::{self, FinishedRun, State};
use firstflight_core::targets::{Backlog, TargetList, TargetRef};
use firstflight_core::timers::Timers;

use crate::record::{Counts, Outcome, Ping};

/// Longest sleep. The engine notices signals after it.
const LONGEST_WAIT: Mono = 50_000_000;

/// Pings that wait for an echo, by the line number of their target. The line number is also their payload.
type Waiting = HashMap<u32, Request>;

struct Request {
    target: u32,
    sent_at: Option<Stamp>,
}

/// All parts of a run.
pub struct Engine {
    backlog: Backlog,
    egress: Egress<u32>,
    receiver: Receiver,
    writer: Writer<Ping>,
    list: Arc<TargetList>,
    clock: Clock,
    waiting: Waiting,
    windows: Timers<u32>,
    counts: Counts,
    progress: Progress,
    stopping: bool,
}

impl Engine {
    /// Assembles the engine.
    pub fn new(
        backlog: Backlog,
        egress: Egress<u32>,
        writer: Writer<Ping>,
        list: Arc<TargetList>,
        clock: Clock,
        timeout: Duration,
        counts: Counts,
    ) -> Result<Engine, Failure> {
        Ok(Engine {
            progress: Progress::new("ping", Some(list.len() as u64), None),
            receiver: Receiver::new(egress.ports(), clock)?,
            backlog,
            egress,
            writer,
            list,
            clock,
            waiting: Waiting::new(),
            windows: Timers::new(timeout.as_nanos() as Mono),
            counts,
            stopping: false,
        })
    }

    /// Returns whether more targets may be pinged.
    fn may_send(&self) -> bool {
        !self.stopping && !self.writer.is_behind()
    }

    fn receive(&mut self) -> Mono {
        let mut answered = Vec::new();
        let (egress, waiting) = (&mut self.egress, &mut self.waiting);
        let drained = self.receiver.read_all(|port, event| match event {
            Event::Stamp { number, stamp } => {
                let line = egress.stamped(port, number, stamp);
                if let Some(request) = line.and_then(|line| waiting.get_mut(&line)) {
                    request.sent_at = Some(stamp);
                }
            }
            Event::Datagram { control, bytes, .. } => {
                let line = bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
                if let Some(request) = line.and_then(|line| waiting.remove(&line)) {
                    answered.push((request, control.stamp));
                }
            }
            Event::Icmp { .. } => {}
        });
        for (request, at) in answered {
            let round_trip_us = at
                .zip(request.sent_at)
                .map(|(at, sent_at)| (at - sent_at) / 1000);
            self.record(request.target, Outcome::Answered, round_trip_us);
        }
        drained
    }

    fn expire(&mut self, drained: Mono) {
        while let Some(line) = self.windows.pop(drained) {
            if let Some(request) = self.waiting.remove(&line) {
                self.record(request.target, Outcome::Timeout, None);
            }
        }
    }

    fn send(&mut self) {
        let now = self.clock.now();
        let room = self.egress.allow_new(now).min(BATCH as u64);
        let mut blocked = Vec::new();
        let mut batch = Vec::new();
        for _ in 0..room {
            let policy = self.egress.policy();
            let next = self
                .backlog
                .next(now, policy, |target, _| blocked.push(target));
            let Some((target, to)) = next else { break };
            let details = self.list.get(target);
            let taken = self
                .egress
                .push(to, details.domain, Class::New, true, |out| {
                    out[..4].copy_from_slice(&details.line.to_be_bytes());
                    Ok::<_, ()>(4)
                });
            match taken {
                Ok(()) => batch.push((target, details.line)),
                Err(_) => blocked.push(target),
            }
        }
        for target in blocked {
            self.record(target, Outcome::Blocked, None);
        }
        self.send_batch(&batch);
        self.backlog.mark_sent(self.clock);
    }

    fn send_batch(&mut self, batch: &[(u32, u32)]) {
        let Some(port) = self.egress.ports().of(true).first().copied() else {
            return;
        };
        let port = usize::from(port);
        let mut from = 0;
        while from < batch.len() {
            let earliest = wall();
            let Ok(sent) = self.egress.send(port, from) else {
                self.egress.restart_stamps(port);
                self.record(batch[from].0, Outcome::SendFailed, None);
                from += 1;
                continue;
            };
            for (target, line) in &batch[from..from + sent] {
                self.egress.await_stamp(port, *line, earliest);
                self.windows.start(self.clock.now(), *line);
                let request = Request {
                    target: *target,
                    sent_at: None,
                };
                self.waiting.insert(*line, request);
            }
            from += sent;
        }
        self.egress.clear();
    }

    fn record(&mut self, target: u32, outcome: Outcome, round_trip_us: Option<i64>) {
        let sent = !matches!(outcome, Outcome::Blocked | Outcome::SendFailed);
        self.counts.0.record(outcome, sent);
        self.writer.push(Ping {
            target: TargetRef::Listed(target),
            outcome,
            round_trip_us,
        });
    }
}

impl run::Engine for Engine {
    type Counts = Counts;
    type Record = Ping;

    /// There is no feed.
    fn read_feed(&mut self) -> bool {
        false
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn is_stopping(&self) -> bool {
        self.stopping
    }

    fn is_done(&self) -> bool {
        (self.stopping || self.backlog.is_empty()) && self.waiting.is_empty()
    }

    fn pass(&mut self) {
        let drained = self.receive();
        self.expire(drained);
        if self.may_send() {
            self.send();
        }
        self.writer.submit();
    }

    fn wait(&mut self) {
        let now = self.clock.now();
        let next_new = self.backlog.next_at().filter(|_| self.may_send());
        let next_new = next_new.map(|at| at.max(self.egress.next_new()));
        let due = [next_new, self.windows.next(), Some(now + LONGEST_WAIT)];
        let due = due.into_iter().flatten().min().unwrap_or(now);
        self.receiver.wait(due.saturating_sub(now));
    }

    fn state(&self) -> State {
        State {
            now: self.clock.now(),
            done: self.counts.0.records(),
            left: self.backlog.len(),
            in_flight: self.waiting.len(),
            is_ending: self.stopping || self.backlog.is_empty(),
            is_behind: self.writer.is_behind(),
            trust: self.egress.policy().trust(),
            room: usize::MAX,
            next_target: self.backlog.next_at(),
            next_new: self.egress.next_new(),
        }
    }

    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    fn has_failed(&self) -> bool {
        self.writer.has_failed()
    }

    fn broken(&self) -> Option<Failure> {
        None
    }

    fn end(self) -> FinishedRun<Counts, Ping> {
        let mut counts = self.counts;
        counts.0.not_done = (self.backlog.len() + self.waiting.len()) as u64;
        FinishedRun {
            counts,
            highest: self.egress.highest(),
            lists: self.egress.policy().followed(),
            progress: self.progress,
            writer: self.writer,
            failure: None,
        }
    }
}
