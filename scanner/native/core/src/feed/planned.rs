//! Slots of the feed that were not probed yet: each leaves at its planned time, or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Mono;
use crate::clock::Stamp;
use crate::feed::Slot;
use crate::feed::skips::Reason;
use crate::targets::Fed;

/// A slot that is not probed yet.
pub struct Waiting {
    /// Planned time.
    pub at: Stamp,
    /// Not later than this.
    pub until: Mono,
    pub fed: Arc<Fed>,
    /// What it waits for beyond its time.
    pub reason: Reason,
}

/// Slots by when they are to be looked at next.
#[derive(Default)]
pub struct Slots {
    due: BTreeMap<(Mono, u32), Waiting>,
    /// No more will come.
    pub ended: bool,
}

impl Slots {
    /// Takes a slot in; `start` is UTC when the monotonic clock was 0.
    pub fn add(&mut self, slot: Slot, start: Stamp) {
        // What lies before the start of the run is due at its start, and perhaps too late.
        let on_our_clock = |at: Stamp| Mono::try_from(at.saturating_sub(start)).unwrap_or_default();
        let grace = Stamp::try_from(slot.grace).unwrap_or(Stamp::MAX);
        let waiting = Waiting {
            at: slot.at,
            until: on_our_clock(slot.at.saturating_add(grace)),
            fed: Arc::new(slot.fed),
            reason: Reason::Late,
        };
        self.put(on_our_clock(slot.at), waiting);
    }

    /// Puts a slot back until `when`.
    pub fn put(&mut self, when: Mono, waiting: Waiting) {
        self.due.insert((when, waiting.fed.number), waiting);
    }

    /// A slot that is due.
    pub fn pop(&mut self, now: Mono) -> Option<Waiting> {
        let entry = self.due.first_entry().filter(|e| e.key().0 <= now)?;
        Some(entry.remove())
    }

    /// When to look next.
    pub fn next(&self) -> Option<Mono> {
        self.due.first_key_value().map(|((when, _), _)| *when)
    }

    /// Whether all that came has been dealt with.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u32, at: Stamp, grace: u64) -> Slot {
        let fed = Fed {
            number,
            ip_text: "127.0.0.1".into(),
            ip: [127, 0, 0, 1].into(),
            domain: "".into(),
            port: 443,
            group: 0,
            owned: false,
        };
        Slot { at, grace, fed }
    }

    #[test]
    fn slots_come_by_their_time_and_not_before() {
        let mut slots = Slots::default();
        slots.add(slot(1, 1_500, 20), 1_000);
        slots.add(slot(2, 1_300, 20), 1_000);
        slots.add(slot(3, 900, 120), 1_000);
        let mut pop = |now| slots.pop(now).map(|w| (w.fed.number, w.until));
        assert_eq!(pop(0), Some((3, 20)), "planned before the start");
        assert_eq!((pop(299), pop(300)), (None, Some((2, 320))));
        let again = slots.pop(600).unwrap();
        assert_eq!((again.fed.number, slots.is_empty()), (1, true));
        slots.put(700, again);
        assert_eq!((slots.next(), slots.pop(699).is_none()), (Some(700), true));
    }
}
