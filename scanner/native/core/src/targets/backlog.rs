//! Targets of the list that are still to be probed: those not looked at yet, those that wait for their address or
//! prefix, those that wait for their group.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use crate::clock::Mono;
use crate::policy::Gate;
use crate::rate_limit::Hold;
use crate::targets::TargetList;
use crate::targets::groups::{Groups, Standing};

/// The targets, and what holds them back.
pub struct Backlog {
    list: Arc<TargetList>,
    /// Numbers of the targets that were not looked at yet; the list is in random order.
    fresh: Range<u32>,
    pub hold: Hold,
    pub groups: Groups,
}

impl Backlog {
    /// All of `list`.
    pub fn new(list: Arc<TargetList>, hold: Hold) -> Backlog {
        Backlog {
            fresh: 0..list.len() as u32,
            list,
            hold,
            groups: Groups::default(),
        }
    }

    /// The next target that its limits let go; `block` is told of those on the way that may not be probed at all, and why.
    pub fn next(
        &mut self,
        now: Mono,
        gate: &Gate,
        mut block: impl FnMut(u32, String),
    ) -> Option<(u32, SocketAddr)> {
        while let Some(target) = self.hold.release(now) {
            let line = self.list.get(target);
            let (to, group) = (line.address(), line.group);
            if !self.held_back(target, group, &mut block) {
                return Some((target, to));
            }
        }
        loop {
            let target = self.groups.pop_freed().or_else(|| self.fresh.next())?;
            let line = self.list.get(target);
            let (to, group) = (line.address(), line.group);
            if let Err(refusal) = gate.judge(to.ip(), line.domain) {
                block(target, refusal.to_string());
                continue;
            }
            if self.held_back(target, group, &mut block) {
                continue;
            }
            if self.hold.admit(target, to.ip(), now) {
                return Some((target, to));
            }
        }
    }

    /// Parks a target whose group is held, blocks it if the group is refused; whether it did.
    fn held_back(&mut self, target: u32, group: u32, block: &mut impl FnMut(u32, String)) -> bool {
        match self.groups.standing(group) {
            Standing::Free => false,
            Standing::Held => {
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

    /// Number of targets that were not given out yet.
    pub fn len(&self) -> usize {
        self.fresh.len() + self.hold.held() + self.groups.waiting()
    }

    /// When there is a next target, at the earliest.
    pub fn next_at(&self) -> Option<Mono> {
        if !self.fresh.is_empty() || self.groups.has_freed() {
            Some(0)
        } else {
            self.hold.next_release()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::namespace::Namespace;

    #[test]
    fn what_is_held_back_waits_and_what_may_not_be_probed_is_told() {
        let text = "ip,domain,port,group\n127.0.0.1,,443,7\n10.0.0.1,,443,\n127.0.0.2,,443,8\n127.0.0.3,,443,\n";
        let list = crate::targets::csv::read(text.as_bytes(), "list", |_, _| ()).unwrap();
        let here = Namespace::here(&[]).unwrap();
        let gate = Gate::new(&["127.0.0.0/8".to_owned()], &[], &[], here).unwrap();
        let hold = Hold::new(0.0, 0.0, None, list.len());
        let mut backlog = Backlog::new(Arc::new(list), hold);
        let mut blocked = Vec::new();
        let mut next = |backlog: &mut Backlog| {
            let next = backlog.next(0, &gate, |target, _| blocked.push(target));
            next.map(|(target, _)| target)
        };
        backlog.groups.hold(7);
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
