//! Slots: probes that leave at a set time or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::{Engine, as_stamp};
use crate::evidence::Stamp;
use crate::feed::{Command, Heard, Slot};
use crate::groups::Standing;
use crate::outcome::Outcome;
use crate::pace::Mono;
use crate::sending::Kind;
use crate::skips::Reason;
use crate::targets::{Fed, Which};

/// A slot that is not probed yet.
struct Waiting {
    /// Planned time.
    at: Stamp,
    /// Not later than this.
    until: Mono,
    fed: Arc<Fed>,
    /// What it waits for beyond its time.
    reason: Reason,
}

/// Slots by when they are to be looked at next.
#[derive(Default)]
pub struct Slots {
    due: BTreeMap<(Mono, u32), Waiting>,
    /// No more will come.
    pub ended: bool,
}

impl Slots {
    /// When to look next.
    pub fn next(&self) -> Option<Mono> {
        self.due.first_key_value().map(|((when, _), _)| *when)
    }

    /// Whether all that came has been dealt with.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    fn put(&mut self, when: Mono, waiting: Waiting) {
        self.due.insert((when, waiting.fed.number), waiting);
    }

    fn pop(&mut self, now: Mono) -> Option<Waiting> {
        let entry = self.due.first_entry().filter(|e| e.key().0 <= now)?;
        Some(entry.remove())
    }
}

impl Engine {
    /// Does what the feed said since the last round.
    pub(crate) fn hear(&mut self) {
        let Some(feed) = self.feed.take() else {
            return;
        };
        let mut open = true;
        loop {
            match feed.next() {
                Heard::Nothing => break,
                Heard::Command(Command::Slot(slot)) => self.take_in(slot),
                Heard::Command(Command::Hold(group)) => self.groups.hold(group),
                Heard::Command(Command::Free(group)) => self.groups.free(group),
                Heard::Command(Command::Refuse(group)) => self.groups.refuse(group),
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

    fn take_in(&mut self, slot: Slot) {
        // What lies before the start of the run is due at its start, and perhaps too late.
        let on_our_clock =
            |at: Stamp| Mono::try_from(at.saturating_sub(self.start)).unwrap_or_default();
        let grace = Stamp::try_from(slot.grace).unwrap_or(Stamp::MAX);
        let waiting = Waiting {
            at: slot.at,
            until: on_our_clock(slot.at.saturating_add(grace)),
            fed: Arc::new(slot.fed),
            reason: Reason::Late,
        };
        self.slots.put(on_our_clock(slot.at), waiting);
    }

    /// Sends the slots that are due, skips those that cannot leave in time.
    pub(crate) fn send_slots(&mut self) {
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
            } else if self.groups.standing(waiting.fed.group) != Standing::Free {
                self.skip(&waiting, Reason::Paused, now);
            } else if self.anonymous && self.door.gate().needs_contact(waiting.fed.ip) {
                self.skip(&waiting, Reason::Contact, now);
            } else if let Err(why) = self.door.gate().judge(waiting.fed.ip, &waiting.fed.domain) {
                self.unsent_slot(waiting.fed, Outcome::Blocked, why.to_string());
            } else if self.ports.of(v4).is_empty() {
                let why = format!("this machine has no IPv{}", if v4 { 4 } else { 6 });
                self.unsent_slot(waiting.fed, Outcome::SendFailed, why);
            } else if self.room_in_flight() == 0 || self.pacer.new_probes(now) == 0 {
                waiting.reason = Reason::Busy;
                let next = self.pacer.next_new().max(now + 1_000_000);
                self.slots.put(next, waiting);
            } else if let Err(free_at) = self.hold.take(waiting.fed.ip, now, waiting.fed.owned) {
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
    pub(crate) fn skip_all(&mut self) {
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

    /// Parks a target whose group is held, or makes a record of it if the group is refused; whether it did.
    pub(crate) fn held_back(&mut self, target: u32, group: u32) -> bool {
        match self.groups.standing(group) {
            Standing::Free => false,
            Standing::Held => {
                self.groups.park(group, target);
                true
            }
            Standing::Refused => {
                let why = "its network was paused: too many timeouts or Retries".to_owned();
                self.unsent(Which::Listed(target), Outcome::Blocked, why);
                true
            }
        }
    }
}
