//! The run: one thread starts connections and reads the agreed options until all targets are done.

use std::collections::VecDeque;
use std::sync::Arc;

use firstflight_core::Failure;
use firstflight_core::clock::{Clock, Mono, SECOND, wall};
use firstflight_core::conclusion::RunResult;
use firstflight_core::connects::{Connects, Ecn, NotBegun, Verdict};
use firstflight_core::feed::Pauses;
use firstflight_core::policy::{Refusal, Trust};
use firstflight_core::progress::Progress;
use firstflight_core::records::{Outcome as _, Writer};
use firstflight_core::run::{self, FinishedRun, State};
use firstflight_core::signals::Signals;
use firstflight_core::targets::{Backlog, Standing, TargetList, TargetRef};
use firstflight_core::timers::Timers;

use crate::asking::{Asking, Next, Rules};
use crate::counts::Counts;
use crate::outcome::Outcome;
use crate::row::{Connection, Finished};

/// Longest sleep. The loop checks for signals at least this often.
const LONGEST_WAIT: Mono = 100_000_000;
/// Interval between two checks on a connection. The kernel sends the first SYN again after one second.
const LOOK: Mono = SECOND / 2;
/// Message for a connection above the allowed rate. This is a defect of the engine.
const OVER_RATE: &str = "the rate did not allow it, which is a defect of the engine";

/// A run's parts.
pub struct Parts {
    pub clock: Clock,
    /// Targets, in the order of the connections.
    pub list: Arc<TargetList>,
    pub backlog: Backlog,
    pub pauses: Pauses,
    pub connects: Connects,
    pub rules: Rules,
    /// Timeout of a connection, from its first SYN.
    pub timeout: Mono,
    pub writer: Writer<Finished>,
    pub progress: Progress,
    pub counts: Counts,
}

/// A run.
pub struct Engine {
    parts: Parts,
    /// Indexed by connection number. The second number is unique in the run.
    open: Vec<Option<(u64, Asking)>>,
    in_flight: usize,
    begun: u64,
    /// (connection number, unique number).
    windows: Timers<(u32, u64)>,
    /// When to check a connection, before the kernel sends its SYN again. Keys as in `windows`.
    looks: Timers<(u32, u64)>,
    /// Targets to connect to again, and the earliest time for each.
    again: VecDeque<(Mono, Asking)>,
    stopping: bool,
    /// The policy's count of list reloads at the last check of the open connections.
    lists_read_again: u64,
}

impl Engine {
    /// Creates the engine; starts no connection.
    pub fn new(parts: Parts) -> Engine {
        Engine {
            open: (0..parts.connects.room()).map(|_| None).collect(),
            in_flight: 0,
            begun: 0,
            windows: Timers::new(parts.timeout),
            looks: Timers::new(LOOK),
            again: VecDeque::new(),
            stopping: false,
            lists_read_again: 0,
            parts,
        }
    }

    /// Runs until all targets are done. After a signal, waits for the open connections; a second signal stops
    /// at once.
    pub fn run(self, signals: &Signals) -> RunResult<Counts> {
        run::run(self, signals)
    }

    /// Reads the closed connections, and gives up connections that timed out before the last read.
    fn read_and_expire(&mut self) {
        let drained = self.read();
        self.look(drained);
        self.expire(drained);
    }

    /// Closes connections with a SYN-ACK that does not agree to ECN. The kernel ignores such a SYN-ACK.
    fn look(&mut self, drained: Mono) {
        while let Some((number, own)) = self.looks.pop(drained) {
            if self.is_open(number, own) && !self.ends_as_not_ecn(number) {
                self.looks.start(drained, (number, own));
            }
        }
    }

    /// Closes a connection if its SYN-ACK does not agree to ECN and the kernel ignored it. Returns whether it
    /// did.
    fn ends_as_not_ecn(&mut self, number: u32) -> bool {
        if !self.parts.connects.is_not_ecn(number) {
            return false;
        }
        self.parts.connects.close(number);
        self.conclude(number, Verdict::NotEcn);
        true
    }

    fn is_open(&self, number: u32, own: u64) -> bool {
        let place = &self.open[number as usize];
        place.as_ref().is_some_and(|(other, _)| *other == own)
    }

    /// Reads the closed connections. Returns the time up to which all results were read.
    fn read(&mut self) -> Mono {
        let mut ended = Vec::new();
        let connects = &mut self.parts.connects;
        let drained = connects.read(|number, how| ended.push((number, how)));
        for (number, how) in ended {
            self.conclude(number, how);
        }
        drained
    }

    fn conclude(&mut self, number: u32, how: Verdict) {
        let Some(asking) = self.take(number) else {
            return;
        };
        match asking.after(how, &self.parts.rules) {
            Next::Done(finished) => self.record(finished),
            Next::Again(asking) => self.again.push_back((0, asking)),
        }
    }

    /// Gives up connections that timed out by `drained`, the time up to which all results were read.
    fn expire(&mut self, drained: Mono) {
        while let Some((number, own)) = self.windows.pop(drained) {
            if !self.is_open(number, own) || self.ends_as_not_ecn(number) {
                continue;
            }
            self.parts.connects.close(number);
            if let Some(asking) = self.take(number) {
                self.record(asking.given_up(&self.parts.rules, None));
            }
        }
    }

    /// Gives up connections that the policy no longer allows, because the kernel would send their SYNs again.
    /// These are the connections to targets that have opted out since, and all connections while the opt-out
    /// list is not confirmed.
    fn give_up_refused(&mut self) {
        let now = self.parts.clock.now();
        let trust = self.parts.connects.look(now);
        let read_again = self.parts.connects.policy().followed().lists_read_again;
        if trust != Trust::None && read_again == self.lists_read_again {
            return;
        }
        self.lists_read_again = read_again;
        let list = self.parts.list.clone();
        for number in 0..self.open.len() as u32 {
            let Some((_, asking)) = &self.open[number as usize] else {
                continue;
            };
            let domain = list.get(asking.target).domain;
            let policy = self.parts.connects.policy();
            let refusal = match policy.check(asking.to.ip(), domain) {
                _ if trust == Trust::None => Refusal::Unconfirmed,
                Err(refusal) => refusal,
                Ok(()) => continue,
            };
            self.parts.connects.close(number);
            if let Some(asking) = self.take(number) {
                let why = Some(refusal.to_string());
                self.record(asking.given_up(&self.parts.rules, why));
            }
        }
    }

    fn take(&mut self, number: u32) -> Option<Asking> {
        let (_, asking) = self.open.get_mut(number as usize)?.take()?;
        self.in_flight -= 1;
        Some(asking)
    }

    /// Starts further connections to targets. They count against the same limits and rate as first
    /// connections, and wait while their network is paused.
    fn ask_again(&mut self) {
        for _ in 0..self.again.len() {
            let now = self.parts.clock.now();
            if self.room() == 0 || self.parts.connects.allow_new(now) == 0 {
                return;
            }
            let Some((when, asking)) = self.again.pop_front() else {
                return;
            };
            let list = self.parts.list.clone();
            let details = list.get(asking.target);
            let backlog = &mut self.parts.backlog;
            let later = match backlog.groups().standing(details.group) {
                Standing::Free if when > now => when,
                Standing::Free => match backlog.take(asking.to.ip(), now, false) {
                    Ok(()) => {
                        self.connect_again(asking, details.domain);
                        continue;
                    }
                    Err(at) => at,
                },
                Standing::Paused => now + SECOND,
                Standing::Refused => {
                    self.record(asking.given_up(&self.parts.rules, None));
                    continue;
                }
            };
            self.again.push_back((later, asking));
        }
    }

    fn connect_again(&mut self, asking: Asking, domain: &str) {
        let (sent_at, ecn) = (wall(), asking.ecn(&self.parts.rules));
        match self.parts.connects.begin(asking.to, domain, ecn) {
            Ok((number, local)) => {
                self.parts.counts.again += 1;
                self.place(number, asking.begun_again(Connection { sent_at, local }));
            }
            Err(_) => self.record(asking.given_up(&self.parts.rules, None)),
        }
    }

    /// Starts connections to the next targets of the list.
    fn ask_new(&mut self) {
        let room = self.room() as u64;
        let now = self.parts.clock.now();
        let list = self.parts.list.clone();
        for _ in 0..self.parts.connects.allow_new(now).min(room) {
            let mut blocked = Vec::new();
            let policy = self.parts.connects.policy();
            let next = self
                .parts
                .backlog
                .next(now, policy, |target, why| blocked.push((target, why)));
            for (target, why) in blocked {
                self.unsent(target, Outcome::Blocked, why);
            }
            let Some((target, to)) = next else { return };
            let sent_at = wall();
            let (domain, ecn) = (list.get(target).domain, self.parts.rules.ecn());
            match self.parts.connects.begin(to, domain, ecn) {
                Ok((number, local)) => {
                    self.place(
                        number,
                        Asking::begun(target, to, Connection { sent_at, local }),
                    );
                }
                Err(NotBegun::Refused(why)) => {
                    self.unsent(target, Outcome::Blocked, why.to_string());
                }
                Err(NotBegun::System(error)) => {
                    let why = format!("the system refused to connect: {error}");
                    self.unsent(target, Outcome::SendFailed, why);
                }
                Err(NotBegun::OverRate) => {
                    self.unsent(target, Outcome::SendFailed, OVER_RATE.to_owned());
                }
            }
        }
    }

    fn place(&mut self, number: u32, asking: Asking) {
        self.begun += 1;
        self.parts.counts.connections += 1;
        self.in_flight += 1;
        self.open[number as usize] = Some((self.begun, asking));
        let now = self.parts.clock.now();
        self.windows.start(now, (number, self.begun));
        if self.parts.rules.ecn() == Ecn::Asked {
            self.looks.start(now, (number, self.begun));
        }
    }

    fn unsent(&mut self, target: u32, outcome: Outcome, why: String) {
        self.record(Finished {
            target: TargetRef::Listed(target),
            outcome,
            detail: Some(why),
            connection: None,
            connects: 0,
            agreed: None,
            not_ecn: false,
            offered: self.parts.rules.offered,
        });
    }

    fn record(&mut self, finished: Finished) {
        let outcome = finished.outcome;
        self.parts.counts.tally.record(outcome, outcome.was_sent());
        self.parts.writer.push(finished);
    }

    /// Returns how many more connections may be opened.
    fn room(&self) -> usize {
        if self.parts.writer.is_behind() || self.stopping {
            return 0;
        }
        self.parts.connects.room()
    }

    fn end_waiting(&mut self) {
        for (_, asking) in std::mem::take(&mut self.again) {
            self.record(asking.given_up(&self.parts.rules, None));
        }
    }
}

impl run::Engine for Engine {
    type Counts = Counts;
    type Record = Finished;

    fn read_feed(&mut self) -> bool {
        self.parts.pauses.read(self.parts.backlog.groups_mut())
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn is_stopping(&self) -> bool {
        self.stopping
    }

    fn is_done(&self) -> bool {
        let all_begun = self.parts.backlog.is_empty() && self.again.is_empty();
        (self.stopping || all_begun) && self.in_flight == 0 && self.again.is_empty()
    }

    fn pass(&mut self) {
        self.read_and_expire();
        self.give_up_refused();
        if self.stopping {
            self.end_waiting();
        } else {
            self.ask_again();
            self.ask_new();
        }
        self.parts.backlog.mark_sent(self.parts.clock);
        self.parts.writer.submit();
    }

    /// Sleeps until the next deadline or the next result.
    fn wait(&mut self) {
        let now = self.parts.clock.now();
        let may_begin = self.room() > 0;
        let again = self.again.iter().map(|(when, _)| *when).min();
        let next = self.parts.backlog.next_at().into_iter().chain(again).min();
        let next = next.filter(|_| may_begin);
        let next = next.map(|at| at.max(self.parts.connects.next_new()));
        let due = [
            next,
            self.windows.next(),
            self.looks.next(),
            Some(now + LONGEST_WAIT),
        ];
        let due = due.into_iter().flatten().min().unwrap_or(now);
        self.parts.connects.wait(due.saturating_sub(now));
    }

    fn state(&self) -> State {
        let Parts {
            backlog, connects, ..
        } = &self.parts;
        State {
            now: self.parts.clock.now(),
            done: self.parts.counts.tally.records(),
            left: backlog.len(),
            in_flight: self.in_flight,
            is_ending: self.stopping || backlog.is_empty(),
            is_behind: self.parts.writer.is_behind(),
            trust: connects.policy().trust(),
            room: connects.room(),
            next_target: backlog.next_at(),
            next_new: connects.next_new(),
        }
    }

    fn progress(&mut self) -> &mut Progress {
        &mut self.parts.progress
    }

    fn has_failed(&self) -> bool {
        self.parts.writer.has_failed()
    }

    fn broken(&self) -> Option<Failure> {
        self.parts.pauses.broken()
    }

    fn end(mut self) -> FinishedRun<Counts, Finished> {
        self.end_waiting();
        let parts = self.parts;
        let mut counts = parts.counts;
        counts.tally.not_done += (parts.backlog.len() + self.in_flight) as u64;
        FinishedRun {
            counts,
            highest: parts.connects.highest(),
            lists: parts.connects.policy().followed(),
            progress: parts.progress,
            writer: parts.writer,
            failure: parts.pauses.broken(),
        }
    }
}

#[cfg(test)]
mod tests;
