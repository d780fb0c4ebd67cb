//! Limits per address and per prefix (/24, /48) without head-of-line blocking. A target waits here while its
//! address or prefix is at the limit, and other targets go first.
//!
//! Each prefix has a heap of the addresses with waiting targets, ordered by the time at which the address may
//! be contacted again. One heap over all prefixes gives the next prefix. The targets of an address form a
//! list that is linked through `next`. A waiting target therefore takes four bytes, in addition to about 150
//! bytes per address and 250 bytes per prefix. If vantage points share the limits by turns, all remaining
//! targets in a list wait here from the first pause on.

mod pacer;

pub use pacer::{Pacer, batch};

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

use crate::clock::{Clock, Mono, SECOND};
use crate::limits::shared_limits::SharedWindows;

type Due = BinaryHeap<Reverse<(Mono, u64, IpAddr)>>;

/// Marks the end of a list of targets.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Prefix {
    free_at: Mono,
    /// A planned probe took the most recent share, so the next one is for the waiting targets.
    planned_last: bool,
    /// (time from which the address is free, address). Only addresses with waiting targets are included.
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
    /// When this vantage point may probe each prefix.
    shared: Option<SharedWindows>,
    /// Selects the order of prefixes with the same time.
    seed: u64,
    limited: bool,
    addresses: HashMap<IpAddr, Address>,
    prefixes: HashMap<IpAddr, Prefix>,
    /// (time, rank among the prefixes with the same time, prefix). An entry is stale unless its time is the
    /// current time of the prefix.
    due: Due,
    next: Vec<u32>,
    waiting: usize,
    sweep_at: usize,
    /// Addresses of the probes allowed since the last [`RateLimits::mark_sent`]; `true`: the limit per address
    /// does not apply.
    leaving: Vec<(IpAddr, bool)>,
}

impl RateLimits {
    /// Creates limits. Rates are in probes per second, 0 = no limit. `shared`: windows of this vantage point,
    /// if it shares limits with others; `targets`: size of the list.
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
            seed: 0,
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
            leaving: Vec::new(),
        }
    }

    /// Sets the seed of the random order among prefixes that may be probed from the same moment on, such as
    /// all prefixes that wait for a turn.
    pub fn with_seed(self, seed: u64) -> Self {
        RateLimits { seed, ..self }
    }

    /// Returns the number of waiting targets.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns whether `target` at `ip` may be probed now. If so, it counts as probed; otherwise it waits
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
            self.leaving.push((ip, false));
            return true;
        }
        self.waiting += 1;
        if address.first == NONE {
            address.first = target;
            prefix.waiting.push(Reverse((address.free_at, ip)));
            schedule(&mut self.due, (self.shared, self.seed), key, prefix);
        } else {
            self.next[address.last as usize] = target;
        }
        address.last = target;
        false
    }

    /// Takes a share of `ip` for a planned probe, or returns the time from which a share is free. `owned`:
    /// the limit per address does not apply, and this probe does not count against it. While targets of the
    /// list wait, planned probes get at most every other share.
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
        schedule(&mut self.due, (self.shared, self.seed), key, prefix);
        self.leaving.push((ip, owned));
        Ok(())
    }

    /// Removes and returns a waiting target that may be probed now. It counts as probed.
    pub fn release(&mut self, now: Mono) -> Option<u32> {
        while let Some(&Reverse((when, _, key))) = self.due.peek() {
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
            let open = allowed_from(self.shared, key, now);
            if open > now {
                // The turn in which it was due has passed.
                prefix.free_at = open;
                schedule(&mut self.due, (self.shared, self.seed), key, prefix);
                continue;
            }
            prefix.waiting.pop();
            let Some(address) = self.addresses.get_mut(&ip) else {
                continue;
            };
            if address.free_at > free_at {
                // A planned probe went to this address in the meantime.
                prefix.waiting.push(Reverse((address.free_at, ip)));
                schedule(&mut self.due, (self.shared, self.seed), key, prefix);
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
            schedule(&mut self.due, (self.shared, self.seed), key, prefix);
            self.waiting -= 1;
            self.leaving.push((ip, false));
            return Some(target);
        }
        None
    }

    /// Notes that all probes allowed before have left, at the latest at the time of `clock`. The next probes
    /// to the same addresses and prefixes wait from that time on, however long these probes took to leave.
    pub fn mark_sent(&mut self, clock: Clock) {
        if !self.leaving.is_empty() {
            self.left_at(clock.now());
        }
    }

    fn left_at(&mut self, now: Mono) {
        for (ip, owned) in self.leaving.drain(..) {
            let key = prefix_of(ip);
            if let Some(prefix) = self.prefixes.get_mut(&key) {
                prefix.free_at = prefix.free_at.max(now + self.prefix_gap);
                schedule(&mut self.due, (self.shared, self.seed), key, prefix);
            }
            if let Some(address) = self.addresses.get_mut(&ip).filter(|_| !owned) {
                address.free_at = address.free_at.max(now + self.address_gap);
            }
        }
    }

    /// Returns when the next waiting target may go, at the earliest.
    pub fn next_release(&self) -> Option<Mono> {
        self.due.peek().map(|Reverse((when, ..))| *when)
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

/// Returns the first time at or after `from` at which this vantage point may probe the prefix `key`.
fn allowed_from(shared: Option<SharedWindows>, key: IpAddr, from: Mono) -> Mono {
    shared.map_or(from, |shared| shared.allowed_from(key, from))
}

fn schedule(
    due: &mut Due,
    (shared, seed): (Option<SharedWindows>, u64),
    key: IpAddr,
    prefix: &Prefix,
) {
    if let Some(Reverse((free_at, _))) = prefix.waiting.peek() {
        let when = allowed_from(shared, key, prefix.free_at.max(*free_at));
        due.push(Reverse((when, place(seed, when, key), key)));
    }
}

/// Returns a prefix's rank among the prefixes with the same time. In the order of addresses, the
/// prefixes in a network would follow each other.
fn place(seed: u64, when: Mono, key: IpAddr) -> u64 {
    let bits = match key {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    SipHasher24::new_with_keys(seed, when).hash(&bits.to_be_bytes())
}

/// Returns the /24 or /48 of an address.
fn prefix_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() & !0xff).into()),
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() & !0 << 80).into()),
    }
}

#[cfg(test)]
mod tests;
