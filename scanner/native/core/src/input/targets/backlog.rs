//! Targets of the list that are still to be probed: new targets, targets that wait for their address or
//! prefix, and targets of paused groups.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;

use crate::clock::{Clock, Mono};
use crate::input::targets::TargetList;
use crate::input::targets::{Groups, Standing};
use crate::limits::policy::Policy;
use crate::limits::rate_limit::RateLimits;

/// The targets, and the limits and groups that delay them.
pub struct Backlog {
    list: Arc<TargetList>,
    /// Numbers of the targets that were not considered yet. The list is in random order.
    fresh: Range<u32>,
    limits: RateLimits,
    groups: Groups,
}

impl Backlog {
    /// Creates a backlog of all targets of `list`.
    pub fn new(list: Arc<TargetList>, limits: RateLimits) -> Backlog {
        Backlog {
            fresh: 0..list.len() as u32,
            list,
            limits,
            groups: Groups::default(),
        }
    }

    /// Removes and returns the next target that the limits allow. Calls `block` with every earlier target that may
    /// not be probed at all, and with the reason.
    pub fn next(
        &mut self,
        now: Mono,
        policy: &Policy,
        mut block: impl FnMut(u32, String),
    ) -> Option<(u32, SocketAddr)> {
        while let Some(target) = self.limits.release(now) {
            let line = self.list.get(target);
            let (to, group) = (line.address(), line.group);
            if !self.set_aside(target, group, &mut block) {
                return Some((target, to));
            }
        }
        loop {
            let target = self.groups.pop_freed().or_else(|| self.fresh.next())?;
            let line = self.list.get(target);
            let (to, group) = (line.address(), line.group);
            if let Err(refusal) = policy.check(to.ip(), line.domain) {
                block(target, refusal.to_string());
                continue;
            }
            if self.set_aside(target, group, &mut block) {
                continue;
            }
            if self.limits.admit(target, to.ip(), now) {
                return Some((target, to));
            }
        }
    }

    /// Takes the share of `ip` for a planned probe; see [`RateLimits::take`].
    pub fn take(&mut self, ip: IpAddr, now: Mono, owned: bool) -> Result<(), Mono> {
        self.limits.take(ip, now, owned)
    }

    /// Notes that all targets taken before have left; see [`RateLimits::mark_sent`].
    pub fn mark_sent(&mut self, clock: Clock) {
        self.limits.mark_sent(clock);
    }

    /// Returns the groups of targets, to see which are paused.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Returns the groups of targets, to pause or free them.
    pub fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    /// Parks a target in a paused group, and blocks a target in a refused group. Returns whether it did
    /// either.
    fn set_aside(&mut self, target: u32, group: u32, block: &mut impl FnMut(u32, String)) -> bool {
        match self.groups.standing(group) {
            Standing::Free => false,
            Standing::Paused => {
                self.groups.park(group, target);
                true
            }
            Standing::Refused => {
                let why = "its network was paused: too many timeouts or Retries".to_owned();
                block(target, why);
                true
            }
        }
    }

    /// Returns the number of targets that were not taken yet.
    pub fn len(&self) -> usize {
        self.fresh.len() + self.limits.waiting() + self.groups.waiting()
    }

    /// Returns whether all targets were taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the earliest time of the next target.
    pub fn next_at(&self) -> Option<Mono> {
        if !self.fresh.is_empty() || self.groups.has_freed() {
            Some(0)
        } else {
            self.limits.next_release()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::policy::Namespace;

    #[test]
    fn what_is_set_aside_waits_and_what_may_not_be_probed_is_told() {
        let text = "ip,domain,port,group\n127.0.0.1,,443,7\n10.0.0.1,,443,\n\
                    127.0.0.2,,443,8\n127.0.0.3,,443,\n";
        let list = crate::input::targets::csv::read(text.as_bytes(), "list", |_, _| ()).unwrap();
        let here = Namespace::here(&[]).unwrap();
        let policy = Policy::new(&["127.0.0.0/8".to_owned()], &[], &[], here).unwrap();
        let limits = RateLimits::new(0.0, 0.0, None, list.len());
        let mut backlog = Backlog::new(Arc::new(list), limits);
        let mut blocked = Vec::new();
        let mut next = |backlog: &mut Backlog| {
            let next = backlog.next(0, &policy, |target, _| blocked.push(target));
            next.map(|(target, _)| target)
        };
        backlog.groups.pause(7);
        backlog.groups.refuse(8);
        assert_eq!((backlog.len(), backlog.next_at()), (4, Some(0)));
        assert_eq!(next(&mut backlog), Some(3), "0 waits, 1 and 2 are blocked");
        assert_eq!(next(&mut backlog), None);
        assert_eq!((backlog.len(), backlog.next_at()), (1, None));
        backlog.groups.free(7);
        assert_eq!((next(&mut backlog), backlog.len()), (Some(0), 0));
        assert_eq!(blocked, [1, 2]);
    }
}
