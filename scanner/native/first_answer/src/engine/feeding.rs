//! What the feed asks for: groups held back, slots sent at their time or skipped.

use std::sync::Arc;

use super::Engine;
use super::batch::Kind;
use super::connect::no_family;
use crate::outcome::Outcome;
use firstflight_core::clock::{Mono, as_stamp};
use firstflight_core::feed::planned::Pending;
use firstflight_core::feed::skips::Reason;
use firstflight_core::feed::{Command, FeedEvent};
use firstflight_core::targets::groups::Standing;
use firstflight_core::targets::{FedTarget, TargetRef};

impl Engine {
    /// Does what the feed said since the last round.
    pub(super) fn read_feed(&mut self) {
        let Some(feed) = self.feed.take() else {
            return;
        };
        let mut open = true;
        loop {
            match feed.next() {
                FeedEvent::Nothing => break,
                FeedEvent::Command(Command::Probe(planned)) => {
                    self.planned.add(planned, self.start)
                }
                FeedEvent::Command(Command::Pause(group)) => self.backlog.groups.pause(group),
                FeedEvent::Command(Command::Free(group)) => self.backlog.groups.free(group),
                FeedEvent::Command(Command::Refuse(group)) => self.backlog.groups.refuse(group),
                FeedEvent::Command(Command::End) => self.planned.ended = true,
                FeedEvent::Closed => {
                    self.stopping |= !self.planned.ended;
                    self.planned.ended = true;
                    open = false;
                    break;
                }
                FeedEvent::Broken(failure) => {
                    self.broken = Some(failure);
                    self.stopping = true;
                    open = false;
                    break;
                }
            }
        }
        if open {
            self.feed = Some(feed);
        }
    }

    /// Sends the slots that are due, skips those that cannot leave in time.
    pub(super) fn send_planned(&mut self) {
        loop {
            let now = self.clock.now();
            let Some(mut pending) = self.planned.pop(now) else {
                return;
            };
            let v4 = pending.fed.ip.is_ipv4();
            if self.stopping {
                self.skip(&pending, Reason::Stopped, now);
            } else if now > pending.until {
                self.skip(&pending, pending.reason, now);
            } else if self.backlog.groups.standing(pending.fed.group) != Standing::Free {
                self.skip(&pending, Reason::Paused, now);
            } else if self.anonymous && self.egress.policy().needs_contact(pending.fed.ip) {
                self.skip(&pending, Reason::Contact, now);
            } else if let Err(why) = self
                .egress
                .policy()
                .check(pending.fed.ip, &pending.fed.domain)
            {
                self.unsent_planned(pending.fed, Outcome::Blocked, why.to_string());
            } else if self.ports.of(v4).is_empty() {
                self.unsent_planned(pending.fed, Outcome::SendFailed, no_family(v4));
            } else if self.room_in_flight() == 0 || self.pacer.new_probes(now) == 0 {
                pending.reason = Reason::Busy;
                let next = self.pacer.next_new().max(now + 1_000_000);
                self.planned.put(next, pending);
            } else if let Err(free_at) =
                self.backlog
                    .limits
                    .take(pending.fed.ip, now, pending.fed.owned)
            {
                pending.reason = Reason::Limit;
                if free_at > pending.until {
                    self.skip(&pending, Reason::Limit, now);
                } else {
                    self.planned.put(free_at, pending);
                }
            } else {
                self.counts.targets += 1;
                let port = self.random_port(v4);
                let to = (pending.fed.ip, pending.fed.port).into();
                let handle = self.connect(TargetRef::Fed(pending.fed), to, port);
                self.send_one(usize::from(port), handle, Kind::New);
            }
        }
    }

    /// The run ends: what is left will not be probed.
    pub(super) fn skip_all(&mut self) {
        let now = self.clock.now();
        while let Some(pending) = self.planned.pop(Mono::MAX) {
            self.skip(&pending, Reason::Stopped, now);
        }
    }

    fn skip(&mut self, pending: &Pending, reason: Reason, now: Mono) {
        self.counts.skipped += 1;
        let utc = self.start.saturating_add(as_stamp(now));
        let late = u64::try_from(utc.saturating_sub(pending.at)).unwrap_or(0);
        self.skips.note(pending.fed.number, reason, late);
    }

    fn unsent_planned(&mut self, fed: Arc<FedTarget>, outcome: Outcome, why: String) {
        self.counts.targets += 1;
        self.unsent(TargetRef::Fed(fed), outcome, why);
    }
}
