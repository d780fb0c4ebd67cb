//! Groups of targets, such as all targets in an AS. A group can be paused, freed again, or refused for the
//! rest of the run.
//!
//! Targets in a paused group are parked until the group is freed. Targets in a refused group become records
//! with the outcome `blocked`. Probes in flight finish as usual, without further connections.

use std::collections::{HashMap, VecDeque};

/// A group's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Free,
    Paused,
    Refused,
}

/// All groups that are not free, and their waiting targets.
#[derive(Debug, Default)]
pub struct Groups {
    standing: HashMap<u32, Standing>,
    parked: HashMap<u32, Vec<u32>>,
    /// Targets of groups that are no longer paused.
    freed: VecDeque<u32>,
    waiting: usize,
}

impl Groups {
    /// Returns the state of `group`. Group 0 means no group and is always free.
    pub fn standing(&self, group: u32) -> Standing {
        if self.standing.is_empty() {
            return Standing::Free;
        }
        self.standing.get(&group).copied().unwrap_or(Standing::Free)
    }

    /// Parks `target` until the group is freed or refused.
    pub fn park(&mut self, group: u32, target: u32) {
        self.parked.entry(group).or_default().push(target);
        self.waiting += 1;
    }

    /// Parks the targets of `group` from now on.
    pub fn pause(&mut self, group: u32) {
        self.standing.insert(group, Standing::Paused);
    }

    /// Permits probes of `group` again.
    pub fn free(&mut self, group: u32) {
        self.standing.remove(&group);
        self.give_back(group);
    }

    /// Blocks the targets of `group` from now on.
    pub fn refuse(&mut self, group: u32) {
        self.standing.insert(group, Standing::Refused);
        self.give_back(group);
    }

    /// Blocks the targets of paused groups from now on, because nobody will free these groups.
    pub fn refuse_paused(&mut self) {
        let paused = self.standing.iter();
        let paused = paused.filter(|(_, standing)| **standing == Standing::Paused);
        let paused: Vec<u32> = paused.map(|(group, _)| *group).collect();
        for group in paused {
            self.refuse(group);
        }
    }

    fn give_back(&mut self, group: u32) {
        self.freed
            .extend(self.parked.remove(&group).unwrap_or_default());
    }

    /// Removes and returns a target in a group that is no longer paused.
    pub fn pop_freed(&mut self) -> Option<u32> {
        let target = self.freed.pop_front()?;
        self.waiting -= 1;
        Some(target)
    }

    /// Returns whether such a target is waiting.
    pub fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Returns the number of targets that are parked, or freed and not taken yet.
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
        groups.pause(5);
        groups.park(5, 4);
        groups.refuse_paused();
        assert_eq!(
            (groups.standing(5), groups.pop_freed(), groups.standing(7)),
            (Standing::Refused, Some(4), Standing::Free)
        );
    }
}
