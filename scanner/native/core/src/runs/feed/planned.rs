//! Planned probes that are not sent yet. Each leaves at its planned time, within its grace, or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::commands::Planned;
use crate::clock::Mono;
use crate::clock::Stamp;
use crate::input::targets::FedTarget;
use crate::output::records::skips::Reason;

/// A planned probe that is not sent yet.
pub struct Pending {
    /// Planned time.
    pub at: Stamp,
    /// Latest time at which it may leave.
    pub until: Mono,
    pub fed: Arc<FedTarget>,
    /// Why it is delayed beyond the planned time.
    pub reason: Reason,
}

/// Planned probes, ordered by when they are due.
#[derive(Default)]
pub struct PlannedProbes {
    due: BTreeMap<(Mono, u32), Pending>,
}

impl PlannedProbes {
    /// Adds a planned probe. `start`: UTC time at which the monotonic clock was 0.
    pub fn add(&mut self, planned: Planned, start: Stamp) {
        // A probe planned before the start of the run is due at the start, and may be too late.
        let on_our_clock = |at: Stamp| Mono::try_from(at.saturating_sub(start)).unwrap_or_default();
        let grace = Stamp::try_from(planned.grace).unwrap_or(Stamp::MAX);
        let pending = Pending {
            at: planned.at,
            until: on_our_clock(planned.at.saturating_add(grace)),
            fed: Arc::new(planned.fed),
            reason: Reason::Late,
        };
        self.put(on_our_clock(planned.at), pending);
    }

    /// Makes a planned probe due at `when`.
    pub fn put(&mut self, when: Mono, pending: Pending) {
        self.due.insert((when, pending.fed.number), pending);
    }

    /// Removes and returns a planned probe that is due.
    pub fn pop(&mut self, now: Mono) -> Option<Pending> {
        let entry = self.due.first_entry().filter(|e| e.key().0 <= now)?;
        Some(entry.remove())
    }

    /// Returns when the next one is due.
    pub fn next(&self) -> Option<Mono> {
        self.due.first_key_value().map(|((when, _), _)| *when)
    }

    /// Returns whether there are no planned probes.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(number: u32, at: Stamp, grace: u64) -> Planned {
        let fed = FedTarget {
            number,
            ip_text: "127.0.0.1".into(),
            ip: [127, 0, 0, 1].into(),
            domain: "".into(),
            port: 443,
            group: 0,
            owned: false,
        };
        Planned { at, grace, fed }
    }

    #[test]
    fn probes_come_at_their_time_and_not_before() {
        let mut probes = PlannedProbes::default();
        probes.add(planned(1, 1_500, 20), 1_000);
        probes.add(planned(2, 1_300, 20), 1_000);
        probes.add(planned(3, 900, 120), 1_000);
        let mut pop = |now| probes.pop(now).map(|w| (w.fed.number, w.until));
        assert_eq!(pop(0), Some((3, 20)), "planned before the start");
        assert_eq!((pop(299), pop(300)), (None, Some((2, 320))));
        let again = probes.pop(600).unwrap();
        assert_eq!((again.fed.number, probes.is_empty()), (1, true));
        probes.put(700, again);
        assert_eq!(
            (probes.next(), probes.pop(699).is_none()),
            (Some(700), true)
        );
    }
}
