//! What the feed asks for: groups held back, slots sent at their time or skipped.

use std::sync::Arc;

use super::Engine;
use super::batch::Kind;
use super::opening::no_family;
use crate::outcome::Outcome;
use firstflight_core::clock::{Mono, as_stamp};
use firstflight_core::feed::planned::Waiting;
use firstflight_core::feed::skips::Reason;
use firstflight_core::feed::{Command, Heard};
use firstflight_core::targets::groups::Standing;
use firstflight_core::targets::{Fed, Which};

impl Engine {
    /// Does what the feed said since the last round.
    pub(super) fn hear(&mut self) {
        let Some(feed) = self.feed.take() else {
            return;
        };
        let mut open = true;
        loop {
            match feed.next() {
                Heard::Nothing => break,
                Heard::Command(Command::Slot(slot)) => self.slots.add(slot, self.start),
                Heard::Command(Command::Hold(group)) => self.backlog.groups.hold(group),
                Heard::Command(Command::Free(group)) => self.backlog.groups.free(group),
                Heard::Command(Command::Refuse(group)) => self.backlog.groups.refuse(group),
                Heard::Command(Command::End) => self.slots.ended = true,
                Heard::Closed => {
                    self.stopping |= !self.slots.ended;
                    self.slots.ended = true;
                    open = false;
                    break;
                }
                Heard::Broken(failure) => {
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
    pub(super) fn send_slots(&mut self) {
        loop {
            let now = self.clock.now();
            let Some(mut waiting) = self.slots.pop(now) else {
                return;
            };
            let v4 = waiting.fed.ip.is_ipv4();
            if self.stopping {
                self.skip(&waiting, Reason::Stopped, now);
            } else if now > waiting.until {
                self.skip(&waiting, waiting.reason, now);
            } else if self.backlog.groups.standing(waiting.fed.group) != Standing::Free {
                self.skip(&waiting, Reason::Paused, now);
            } else if self.anonymous && self.door.gate().needs_contact(waiting.fed.ip) {
                self.skip(&waiting, Reason::Contact, now);
            } else if let Err(why) = self.door.gate().judge(waiting.fed.ip, &waiting.fed.domain) {
                self.unsent_slot(waiting.fed, Outcome::Blocked, why.to_string());
            } else if self.ports.of(v4).is_empty() {
                self.unsent_slot(waiting.fed, Outcome::SendFailed, no_family(v4));
            } else if self.room_in_flight() == 0 || self.pacer.new_probes(now) == 0 {
                waiting.reason = Reason::Busy;
                let next = self.pacer.next_new().max(now + 1_000_000);
                self.slots.put(next, waiting);
            } else if let Err(free_at) =
                self.backlog
                    .hold
                    .take(waiting.fed.ip, now, waiting.fed.owned)
            {
                waiting.reason = Reason::Limit;
                if free_at > waiting.until {
                    self.skip(&waiting, Reason::Limit, now);
                } else {
                    self.slots.put(free_at, waiting);
                }
            } else {
                self.counts.targets += 1;
                let port = self.random_port(v4);
                let to = (waiting.fed.ip, waiting.fed.port).into();
                let handle = self.open(Which::Fed(waiting.fed), to, port);
                self.send_one(usize::from(port), handle, Kind::New);
            }
        }
    }

    /// The run ends: what is left will not be probed.
    pub(super) fn skip_all(&mut self) {
        let now = self.clock.now();
        while let Some(waiting) = self.slots.pop(Mono::MAX) {
            self.skip(&waiting, Reason::Stopped, now);
        }
    }

    fn skip(&mut self, waiting: &Waiting, reason: Reason, now: Mono) {
        self.counts.skipped += 1;
        let utc = self.start.saturating_add(as_stamp(now));
        let late = u64::try_from(utc.saturating_sub(waiting.at)).unwrap_or(0);
        self.skips.note(waiting.fed.number, reason, late);
    }

    fn unsent_slot(&mut self, fed: Arc<Fed>, outcome: Outcome, why: String) {
        self.counts.targets += 1;
        self.unsent(Which::Fed(fed), outcome, why);
    }
}
