//! Targets that can be held back together (those of one AS): held, freed again, or refused for the rest of the run.
//!
//! A held target is parked and goes on when its group is freed; a refused one becomes a record with outcome `blocked`.
//! Probes in flight end as they would, without further connections.

use std::collections::{HashMap, VecDeque};

/// How a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Free,
    Paused,
    Refused,
}

/// All groups that do not stand free, and the targets that wait for them.
#[derive(Debug, Default)]
pub struct Groups {
    standing: HashMap<u32, Standing>,
    parked: HashMap<u32, Vec<u32>>,
    /// Targets whose group is held no more.
    freed: VecDeque<u32>,
    waiting: usize,
}

impl Groups {
    /// How `group` stands; group 0 (none) always stands free.
    pub fn standing(&self, group: u32) -> Standing {
        if self.standing.is_empty() {
            return Standing::Free;
        }
        self.standing.get(&group).copied().unwrap_or(Standing::Free)
    }

    /// Parks `target` until its group is freed or refused.
    pub fn park(&mut self, group: u32, target: u32) {
        self.parked.entry(group).or_default().push(target);
        self.waiting += 1;
    }

    /// Nothing new goes to `group`.
    pub fn pause(&mut self, group: u32) {
        self.standing.insert(group, Standing::Paused);
    }

    /// `group` may be probed again.
    pub fn free(&mut self, group: u32) {
        self.standing.remove(&group);
        self.give_back(group);
    }

    /// `group` is not to be probed any more.
    pub fn refuse(&mut self, group: u32) {
        self.standing.insert(group, Standing::Refused);
        self.give_back(group);
    }

    fn give_back(&mut self, group: u32) {
        self.freed
            .extend(self.parked.remove(&group).unwrap_or_default());
    }

    /// A target whose group is held no more.
    pub fn pop_freed(&mut self) -> Option<u32> {
        let target = self.freed.pop_front()?;
        self.waiting -= 1;
        Some(target)
    }

    /// Whether there is one.
    pub fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Number of targets that are parked or freed and not taken yet.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parked_targets_come_back() {
        let mut groups = Groups::default();
        groups.pause(7);
        assert_eq!(
            (groups.standing(7), groups.standing(8), groups.standing(0)),
            (Standing::Paused, Standing::Free, Standing::Free)
        );
        groups.park(7, 1);
        groups.park(7, 2);
        assert_eq!((groups.waiting(), groups.has_freed()), (2, false));
        groups.free(7);
        assert_eq!(groups.standing(7), Standing::Free);
        assert_eq!(
            (groups.pop_freed(), groups.pop_freed(), groups.pop_freed()),
            (Some(1), Some(2), None)
        );
        groups.pause(9);
        groups.park(9, 3);
        groups.refuse(9);
        assert_eq!(
            (groups.standing(9), groups.pop_freed(), groups.waiting()),
            (Standing::Refused, Some(3), 0)
        );
    }
}
