//! Limits per address and per prefix (/24, /48) without head-of-line blocking: a target whose address or prefix had
//! its share waits here while others go first.
//!
//! A prefix keeps a heap of its addresses with waiting targets, ordered by when the address may be contacted again;
//! one heap over all prefixes says which may go next. Targets of one address wait in a list threaded through
//! `next`, so that a million waiting targets cost four bytes each and their addresses' states.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use crate::pace::{Mono, SECOND};

/// End of a list of targets.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Prefix {
    free_at: Mono,
    /// (when the address is free, address); only addresses with waiting targets.
    waiting: BinaryHeap<Reverse<(Mono, IpAddr)>>,
}

#[derive(Debug)]
struct Address {
    free_at: Mono,
    first: u32,
    last: u32,
}

/// Which targets may be probed now.
#[derive(Debug)]
pub struct Hold {
    address_gap: Mono,
    prefix_gap: Mono,
    addresses: HashMap<IpAddr, Address>,
    prefixes: HashMap<IpAddr, Prefix>,
    /// (when, prefix); an entry is stale unless it is the prefix's present time.
    due: BinaryHeap<Reverse<(Mono, IpAddr)>>,
    next: Vec<u32>,
    held: usize,
    sweep_at: usize,
}

impl Hold {
    /// Rates in probes per second, 0 = no limit; `targets`: size of the list.
    pub fn new(address_rate: f64, prefix_rate: f64, targets: usize) -> Self {
        let gap = |rate: f64| {
            if rate > 0.0 {
                (SECOND as f64 / rate) as Mono
            } else {
                0
            }
        };
        let limited = address_rate > 0.0 || prefix_rate > 0.0;
        Hold {
            address_gap: gap(address_rate),
            prefix_gap: gap(prefix_rate),
            addresses: HashMap::new(),
            prefixes: HashMap::new(),
            due: BinaryHeap::new(),
            next: if limited {
                vec![NONE; targets]
            } else {
                Vec::new()
            },
            held: 0,
            sweep_at: 4096,
        }
    }

    /// Number of waiting targets.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether `target` at `ip` may be probed now, which then counts as done; else it waits here.
    pub fn admit(&mut self, target: u32, ip: IpAddr, now: Mono) -> bool {
        if self.next.is_empty() {
            return true;
        }
        self.sweep(now);
        let key = prefix_of(ip);
        let prefix = self.prefixes.entry(key).or_default();
        let address = self.addresses.entry(ip).or_insert(Address {
            free_at: 0,
            first: NONE,
            last: NONE,
        });
        if address.first == NONE
            && address.free_at <= now
            && prefix.free_at <= now
            && prefix.waiting.is_empty()
        {
            address.free_at = now + self.address_gap;
            prefix.free_at = now + self.prefix_gap;
            return true;
        }
        self.held += 1;
        if address.first == NONE {
            address.first = target;
            prefix.waiting.push(Reverse((address.free_at, ip)));
            Self::schedule(&mut self.due, key, prefix);
        } else {
            self.next[address.last as usize] = target;
        }
        address.last = target;
        false
    }

    /// A waiting target that may be probed now, which then counts as done.
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
            if prefix.free_at.max(free_at) != when {
                continue;
            }
            prefix.waiting.pop();
            let Some(address) = self.addresses.get_mut(&ip) else {
                continue;
            };
            let target = address.first;
            address.first = self.next[target as usize];
            address.free_at = now + self.address_gap;
            prefix.free_at = now + self.prefix_gap;
            if address.first != NONE {
                prefix.waiting.push(Reverse((address.free_at, ip)));
            }
            Self::schedule(&mut self.due, key, prefix);
            self.held -= 1;
            return Some(target);
        }
        None
    }

    /// When the next waiting target may go, at the earliest.
    pub fn next_release(&self) -> Option<Mono> {
        self.due.peek().map(|Reverse((when, _))| *when)
    }

    fn schedule(due: &mut BinaryHeap<Reverse<(Mono, IpAddr)>>, key: IpAddr, prefix: &Prefix) {
        if let Some(Reverse((free_at, _))) = prefix.waiting.peek() {
            due.push(Reverse((prefix.free_at.max(*free_at), key)));
        }
    }

    /// Forgets what limits nothing any more, each time the tables have doubled.
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

    /// Probes all `ips` (by index) with a free pacer in steps of 1 ms; gives (time in ms, index).
    fn run(hold: &mut Hold, ips: &[IpAddr], limit_ms: u64) -> Vec<(u64, u32)> {
        let mut done = Vec::new();
        let mut fresh = 0..ips.len() as u32;
        for ms in 0..limit_ms {
            let now = ms * 1_000_000;
            while let Some(t) = hold.release(now) {
                done.push((ms, t));
            }
            for t in fresh.by_ref() {
                if hold.admit(t, ips[t as usize], now) {
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
    fn one_busy_address_does_not_hold_up_its_prefix() {
        let mut ips = vec![ip("10.0.0.1"); 20];
        ips.extend((1..=10).map(|i| ip(&format!("10.0.0.{}", i + 1))));
        ips.push(ip("10.0.1.1"));
        let mut hold = Hold::new(1.0, 10.0, ips.len());
        let done = run(&mut hold, &ips, 25_000);
        assert_eq!((done.len(), hold.held()), (31, 0));
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
        assert_eq!(run(&mut Hold::new(1.0, 0.0, 6), &ips, 10).len(), 6);
        assert_eq!(
            run(&mut Hold::new(0.0, 2.0, 6), &ips, 1001).len(),
            3,
            "one /48, two a second"
        );
        assert_eq!(run(&mut Hold::new(0.0, 0.0, 6), &ips, 1).len(), 6);
    }

    #[test]
    fn forgets_idle_addresses() {
        let mut hold = Hold::new(1.0, 0.0, 100_000);
        for t in 0..100_000_u32 {
            assert!(hold.admit(t, IpAddr::V4(t.into()), u64::from(t) * 10_000_000));
        }
        assert!(hold.addresses.len() <= 4096 && hold.prefixes.len() <= 4096);
    }
}
