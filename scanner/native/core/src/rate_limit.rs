//! Limits per address and per prefix (/24, /48) without head-of-line blocking: a target whose address or
//! prefix has reached its limit waits here while others go first.
//!
//! A prefix keeps a heap of its addresses with waiting targets, ordered by when the address may be
//! contacted again; one heap over all prefixes gives the next one. Targets of one address wait in a list
//! threaded through `next`, so that a million waiting targets cost four bytes each and their addresses'
//! states.

mod pacer;

pub use pacer::{Pacer, batch};

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use crate::clock::{Mono, SECOND};
use crate::shared_limits::SharedWindows;

/// End of a list of targets.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Prefix {
    free_at: Mono,
    /// A planned probe took the last share: the next one is for the waiting targets.
    planned_last: bool,
    /// (when the address is free, address); only addresses with waiting targets.
    waiting: BinaryHeap<Reverse<(Mono, IpAddr)>>,
}

#[derive(Debug)]
struct Address {
    free_at: Mono,
    planned_last: bool,
    first: u32,
    last: u32,
}

impl Address {
    fn new() -> Self {
        Address {
            free_at: 0,
            planned_last: false,
            first: NONE,
            last: NONE,
        }
    }
}

/// Decides which targets may be probed now.
#[derive(Debug)]
pub struct RateLimits {
    address_gap: Mono,
    prefix_gap: Mono,
    /// When this vantage point may probe which prefix.
    shared: Option<SharedWindows>,
    limited: bool,
    addresses: HashMap<IpAddr, Address>,
    prefixes: HashMap<IpAddr, Prefix>,
    /// (when, prefix); an entry is stale unless it is the prefix's present time.
    due: BinaryHeap<Reverse<(Mono, IpAddr)>>,
    next: Vec<u32>,
    waiting: usize,
    sweep_at: usize,
}

impl RateLimits {
    /// Rates in probes per second, 0 = no limit; `shared`: of this vantage point, if limits are shared with
    /// others; `targets`: size of the list.
    pub fn new(
        address_rate: f64,
        prefix_rate: f64,
        shared: Option<SharedWindows>,
        targets: usize,
    ) -> Self {
        let gap = |rate: f64| {
            if rate > 0.0 {
                (SECOND as f64 / rate) as Mono
            } else {
                0
            }
        };
        let limited = address_rate > 0.0 || prefix_rate > 0.0;
        RateLimits {
            address_gap: gap(address_rate),
            prefix_gap: gap(prefix_rate),
            shared: shared.filter(|_| limited),
            limited,
            addresses: HashMap::new(),
            prefixes: HashMap::new(),
            due: BinaryHeap::new(),
            next: if limited {
                vec![NONE; targets]
            } else {
                Vec::new()
            },
            waiting: 0,
            sweep_at: 4096,
        }
    }

    /// Returns the number of waiting targets.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns whether `target` at `ip` may be probed now, which then counts as done; otherwise it waits
    /// here.
    pub fn admit(&mut self, target: u32, ip: IpAddr, now: Mono) -> bool {
        if !self.limited {
            return true;
        }
        self.sweep(now);
        let key = prefix_of(ip);
        let prefix = self.prefixes.entry(key).or_default();
        let address = self.addresses.entry(ip).or_insert_with(Address::new);
        if address.first == NONE
            && address.free_at <= now
            && prefix.free_at <= now
            && prefix.waiting.is_empty()
            && allowed_from(self.shared, key, now) == now
        {
            address.free_at = now + self.address_gap;
            prefix.free_at = now + self.prefix_gap;
            (address.planned_last, prefix.planned_last) = (false, false);
            return true;
        }
        self.waiting += 1;
        if address.first == NONE {
            address.first = target;
            prefix.waiting.push(Reverse((address.free_at, ip)));
            schedule(&mut self.due, self.shared, key, prefix);
        } else {
            self.next[address.last as usize] = target;
        }
        address.last = target;
        false
    }

    /// Takes the share of `ip` for a planned probe, or returns the time from which there is one. `owned`:
    /// the limit per address does not apply, and this probe is not counted there. While targets of the list
    /// wait, planned probes get every other share at most.
    pub fn take(&mut self, ip: IpAddr, now: Mono, owned: bool) -> Result<(), Mono> {
        if !self.limited {
            return Ok(());
        }
        self.sweep(now);
        let key = prefix_of(ip);
        let prefix = self.prefixes.entry(key).or_default();
        let mut free_at = prefix.free_at.max(now);
        if prefix.planned_last && !prefix.waiting.is_empty() {
            free_at += self.prefix_gap;
        }
        let address = self.addresses.entry(ip).or_insert_with(Address::new);
        if !owned {
            free_at = free_at.max(address.free_at);
            if address.planned_last && address.first != NONE {
                free_at += self.address_gap;
            }
        }
        let free_at = allowed_from(self.shared, key, free_at);
        if free_at > now {
            return Err(free_at);
        }
        prefix.free_at = now + self.prefix_gap;
        prefix.planned_last = true;
        if !owned {
            address.free_at = now + self.address_gap;
            address.planned_last = true;
        }
        schedule(&mut self.due, self.shared, key, prefix);
        Ok(())
    }

    /// Takes a waiting target that may be probed now, which then counts as done.
    pub fn release(&mut self, now: Mono) -> Option<u32> {
        while let Some(&Reverse((when, key))) = self.due.peek() {
            if when > now {
                return None;
            }
            self.due.pop();
            let Some(prefix) = self.prefixes.get_mut(&key) else {
                continue;
            };
            let Some(&Reverse((free_at, ip))) = prefix.waiting.peek() else {
                continue;
            };
            if allowed_from(self.shared, key, prefix.free_at.max(free_at)) != when {
                continue;
            }
            prefix.waiting.pop();
            let Some(address) = self.addresses.get_mut(&ip) else {
                continue;
            };
            if address.free_at > free_at {
                // A planned probe went there meanwhile.
                prefix.waiting.push(Reverse((address.free_at, ip)));
                schedule(&mut self.due, self.shared, key, prefix);
                continue;
            }
            let target = address.first;
            address.first = std::mem::replace(&mut self.next[target as usize], NONE);
            address.free_at = now + self.address_gap;
            prefix.free_at = now + self.prefix_gap;
            (address.planned_last, prefix.planned_last) = (false, false);
            if address.first != NONE {
                prefix.waiting.push(Reverse((address.free_at, ip)));
            }
            schedule(&mut self.due, self.shared, key, prefix);
            self.waiting -= 1;
            return Some(target);
        }
        None
    }

    /// Returns when the next waiting target may go, at the earliest.
    pub fn next_release(&self) -> Option<Mono> {
        self.due.peek().map(|Reverse((when, _))| *when)
    }

    /// Removes entries without effect, each time the tables have doubled.
    fn sweep(&mut self, now: Mono) {
        if self.addresses.len() < self.sweep_at {
            return;
        }
        self.addresses
            .retain(|_, a| a.first != NONE || a.free_at > now);
        self.prefixes
            .retain(|_, p| !p.waiting.is_empty() || p.free_at > now);
        self.sweep_at = (2 * self.addresses.len()).max(4096);
    }
}

/// Returns the first moment from `from` on at which this vantage point may probe the prefix `key`.
fn allowed_from(shared: Option<SharedWindows>, key: IpAddr, from: Mono) -> Mono {
    shared.map_or(from, |shared| shared.allowed_from(key, from))
}

fn schedule(
    due: &mut BinaryHeap<Reverse<(Mono, IpAddr)>>,
    shared: Option<SharedWindows>,
    key: IpAddr,
    prefix: &Prefix,
) {
    if let Some(Reverse((free_at, _))) = prefix.waiting.peek() {
        due.push(Reverse((
            allowed_from(shared, key, prefix.free_at.max(*free_at)),
            key,
        )));
    }
}

/// The /24 or /48 around an address.
fn prefix_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() & !0xff).into()),
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() & !0 << 80).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes all `ips` (by index) with a free pacer in steps of 1 ms; returns (time in ms, index).
    fn run(limits: &mut RateLimits, ips: &[IpAddr], limit_ms: u64) -> Vec<(u64, u32)> {
        let mut done = Vec::new();
        let mut fresh = 0..ips.len() as u32;
        for ms in 0..limit_ms {
            let now = ms * 1_000_000;
            while let Some(t) = limits.release(now) {
                done.push((ms, t));
            }
            for t in fresh.by_ref() {
                if limits.admit(t, ips[t as usize], now) {
                    done.push((ms, t));
                }
            }
        }
        done
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_busy_address_does_not_delay_its_prefix() {
        let mut ips = vec![ip("10.0.0.1"); 20];
        ips.extend((1..=10).map(|i| ip(&format!("10.0.0.{}", i + 1))));
        ips.push(ip("10.0.1.1"));
        let mut limits = RateLimits::new(1.0, 10.0, None, ips.len());
        let done = run(&mut limits, &ips, 25_000);
        assert_eq!((done.len(), limits.waiting()), (31, 0));
        let at = |t: u32| done.iter().find(|(_, d)| *d == t).unwrap().0;
        assert_eq!(at(30), 0, "another prefix goes at once");
        assert!((20..30).all(|t| at(t) <= 1_200), "{done:?}");
        let mut same: Vec<u64> = (0..20).map(at).collect();
        same.sort_unstable();
        assert!(same.windows(2).all(|w| w[1] - w[0] >= 1000), "{same:?}");
        assert!(same[19] < 20_500, "{same:?}");
        let mut prefix: Vec<u64> = (0..30).map(at).collect();
        prefix.sort_unstable();
        assert!(prefix.windows(2).all(|w| w[1] - w[0] >= 100));
    }

    #[test]
    fn each_limit_alone_and_none() {
        let ips: Vec<IpAddr> = (0..6).map(|i| ip(&format!("2001:db8:0:{i}::1"))).collect();
        assert_eq!(
            run(&mut RateLimits::new(1.0, 0.0, None, 6), &ips, 10).len(),
            6
        );
        assert_eq!(
            run(&mut RateLimits::new(0.0, 2.0, None, 6), &ips, 1001).len(),
            3,
            "one /48, two a second"
        );
        assert_eq!(
            run(&mut RateLimits::new(0.0, 0.0, None, 6), &ips, 1).len(),
            6
        );
    }

    #[test]
    fn forgets_idle_addresses() {
        let mut limits = RateLimits::new(1.0, 0.0, None, 100_000);
        for t in 0..100_000_u32 {
            assert!(limits.admit(t, IpAddr::V4(t.into()), u64::from(t) * 10_000_000));
        }
        assert!(limits.addresses.len() <= 4096 && limits.prefixes.len() <= 4096);
    }

    #[test]
    fn planned_probes_and_targets_share_the_limits() {
        let ips = [ip("10.0.0.1"), ip("10.0.0.1"), ip("10.0.0.2")];
        let mut limits = RateLimits::new(1.0, 4.0, None, ips.len());
        let mut done: Vec<(u64, IpAddr)> = Vec::new();
        let mut fresh = 0..3_u32;
        for ms in 0..4000 {
            let now = ms * 1_000_000;
            // Tries at every moment, before the waiting targets do, and still gets only half of the shares.
            {
                match limits.take(ips[0], now, false) {
                    Ok(()) => done.push((ms, ips[0])),
                    Err(free_at) => assert!(free_at > now),
                }
            }
            while let Some(t) = limits.release(now) {
                done.push((ms, ips[t as usize]));
            }
            for t in fresh.by_ref() {
                if limits.admit(t, ips[t as usize], now) {
                    done.push((ms, ips[t as usize]));
                }
            }
        }
        assert_eq!(limits.waiting(), 0, "{done:?}");
        assert!(done.len() > 4 && done.len() <= 8, "{done:?}");
        assert!(
            done.windows(2).all(|w| w[1].0 - w[0].0 >= 250),
            "the prefix: {done:?}"
        );
        let same: Vec<u64> = done.iter().filter(|d| d.1 == ips[0]).map(|d| d.0).collect();
        assert!(same.windows(2).all(|w| w[1] - w[0] >= 1000), "{done:?}");
    }

    #[test]
    fn owned_probes_pass_the_limit_of_the_address_alone() {
        let mut limits = RateLimits::new(1.0, 10.0, None, 0);
        let one = ip("10.0.0.1");
        assert!(limits.take(one, 0, true).is_ok() && limits.take(one, 0, false).is_err());
        assert!(limits.take(one, SECOND / 10, false).is_ok());
        assert_eq!(
            limits.take(one, SECOND / 5, false),
            Err(SECOND / 10 + SECOND),
            "owned probes are not counted there"
        );
        assert!(limits.take(one, SECOND / 5, true).is_ok());
    }

    #[test]
    fn targets_wait_for_their_turn() {
        let shared = crate::shared_limits::SharedLimits {
            index: 0,
            of: 2,
            length: SECOND,
            pause: SECOND / 2,
        };
        let ips: Vec<IpAddr> = (0..8).map(|i| ip(&format!("10.0.{}.1", i % 2))).collect();
        let clocked = shared.on_clock(0);
        let mut limits = RateLimits::new(0.0, 5.0, Some(clocked), ips.len());
        let done = run(&mut limits, &ips, 10_000);
        assert_eq!(done.len(), 8);
        for (ms, target) in done {
            let now = ms * 1_000_000;
            assert_eq!(
                clocked.allowed_from(prefix_of(ips[target as usize]), now),
                now
            );
        }
    }
}
