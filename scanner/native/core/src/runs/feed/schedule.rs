//! A run's planned probes: due, waiting, or skipped.

use std::sync::Arc;

use super::commands::{Command, Feed, FeedEvent};
use super::planned::{Pending, PlannedProbes};
use crate::Failure;
use crate::clock::{Mono, Stamp, as_stamp};
use crate::input::targets::{Backlog, FedTarget, Groups, Standing};
use crate::output::records::skips::{Reason, Skips};
use crate::sockets::egress::Egress;

/// Shortest wait for a probe when the run is too busy for it.
const BUSY_WAIT: Mono = 1_000_000;

/// The decision about a planned probe that is due.
pub enum Due {
    /// It may be sent now. Its share of the limits is already taken.
    Connect(Arc<FedTarget>),
    /// The policy forbids the address or name, for this reason.
    Blocked(Arc<FedTarget>, String),
    /// This machine has no address of the probe's family.
    NoFamily(Arc<FedTarget>),
}

/// Conditions for planned probes, in addition to the limits.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The run is stopping.
    pub stopping: bool,
    /// There is memory for another probe.
    pub room: bool,
}

/// The feed and its planned probes.
pub struct Schedule {
    feed: Option<Feed>,
    planned: PlannedProbes,
    /// No more planned probes will arrive.
    complete: bool,
    skips: Skips,
    skipped: u64,
    broken: Option<Failure>,
    /// UTC time at which the monotonic clock was 0. Planned times are converted with it, so that a change of
    /// the wall clock does not move them.
    start: Stamp,
    /// Addresses that need a contact may be probed.
    contact: bool,
}

impl Schedule {
    /// Reads `feed`, if there is one. `start`: UTC time at which the monotonic clock was 0; `contact`:
    /// whether probed servers receive a contact.
    pub fn new(feed: Option<Feed>, skips: Skips, start: Stamp, contact: bool) -> Schedule {
        Schedule {
            feed,
            planned: PlannedProbes::default(),
            complete: false,
            skips,
            skipped: 0,
            broken: None,
            start,
            contact,
        }
    }

    /// Executes the commands received since the last call. Returns whether the run has to stop: the feed
    /// stopped without `end`, or contains a line that cannot be parsed.
    pub fn read(&mut self, groups: &mut Groups) -> bool {
        let Some(feed) = self.feed.take() else {
            return false;
        };
        loop {
            match feed.next() {
                FeedEvent::Nothing => break,
                FeedEvent::Command(Command::Probe(planned)) => {
                    self.planned.add(planned, self.start)
                }
                FeedEvent::Command(Command::Pause(group)) => groups.pause(group),
                FeedEvent::Command(Command::Free(group)) => groups.free(group),
                FeedEvent::Command(Command::Refuse(group)) => groups.refuse(group),
                FeedEvent::Command(Command::End) => self.complete = true,
                FeedEvent::Closed => {
                    let stop = !self.complete;
                    self.complete = true;
                    if !stop {
                        groups.refuse_paused();
                    }
                    return stop;
                }
                FeedEvent::Broken(failure) => {
                    self.broken = Some(failure);
                    return true;
                }
            }
        }
        self.feed = Some(feed);
        false
    }

    /// Returns the next planned probe that is due. Skips probes that cannot leave in time. A probe that has
    /// to wait for a limit becomes due again later.
    pub fn next<K>(
        &mut self,
        now: Mono,
        conditions: Conditions,
        egress: &mut Egress<K>,
        backlog: &mut Backlog,
    ) -> Option<Due> {
        while let Some(mut pending) = self.planned.pop(now) {
            let fed = &pending.fed;
            if conditions.stopping {
                self.skip(&pending, Reason::Stopped, now);
            } else if now > pending.until {
                self.skip(&pending, pending.reason, now);
            } else if backlog.groups().standing(fed.group) != Standing::Free {
                self.skip(&pending, Reason::Paused, now);
            } else if !self.contact && egress.policy().needs_contact(fed.ip) {
                self.skip(&pending, Reason::Contact, now);
            } else if let Err(why) = egress.policy().check(fed.ip, &fed.domain) {
                return Some(Due::Blocked(pending.fed, why.to_string()));
            } else if egress.ports().of(fed.ip.is_ipv4()).is_empty() {
                return Some(Due::NoFamily(pending.fed));
            } else if !conditions.room || egress.allow_new(now) == 0 {
                pending.reason = Reason::Busy;
                let next = egress.next_new().max(now + BUSY_WAIT);
                self.planned.put(next, pending);
            } else if let Err(free_at) = backlog.take(fed.ip, now, fed.owned) {
                pending.reason = Reason::Limit;
                if free_at > pending.until {
                    self.skip(&pending, Reason::Limit, now);
                } else {
                    self.planned.put(free_at, pending);
                }
            } else {
                return Some(Due::Connect(pending.fed));
            }
        }
        None
    }

    /// Skips all planned probes because the run is stopping.
    pub fn skip_all(&mut self, now: Mono) {
        while let Some(pending) = self.planned.pop(Mono::MAX) {
            self.skip(&pending, Reason::Stopped, now);
        }
    }

    fn skip(&mut self, pending: &Pending, reason: Reason, now: Mono) {
        self.skipped += 1;
        let utc = self.start.saturating_add(as_stamp(now));
        let late = u64::try_from(utc.saturating_sub(pending.at)).unwrap_or(0);
        self.skips.note(pending.fed.number, reason, late);
    }

    /// Returns when the next planned probe is due.
    pub fn next_at(&self) -> Option<Mono> {
        self.planned.next()
    }

    /// Returns whether all planned probes are handled and no more will arrive.
    pub fn is_finished(&self) -> bool {
        self.complete && self.planned.is_empty()
    }

    /// Returns the number of planned probes that were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns why skipped probes can no longer be written, if so.
    pub fn write_failure(&self) -> Option<Failure> {
        self.skips.failure()
    }

    /// Returns the fault of the feed, if any.
    pub fn broken(&self) -> Option<Failure> {
        self.broken.clone()
    }
}

#[cfg(test)]
mod tests;
