//! The only way out: every datagram of every engine is handed to the kernel here.
//!
//! [`Egress`] asks the policy about the very address that a datagram goes to, takes no more datagrams than
//! the rate allows at the moment, and counts those that left. Engines never see a socket.

pub(crate) mod batch;
mod next_try;
mod ports;
mod send_all;
pub(crate) mod socket;
mod stamps;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

pub use next_try::is_full;
pub use ports::Ports;
pub use send_all::Sent;

use crate::clock::{Clock, Mono, Stamp};
use crate::policy::{Policy, Refusal, Trust};
use crate::rate_limit::Pacer;
use batch::Batch;
use stamps::{StampRequest, StampRequests};

pub use crate::messages::BATCH;

/// Which ceiling a datagram counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The first datagram to a target: the rate of new probes, and the ceiling of all datagrams.
    New,
    /// Everything else: the ceiling of all datagrams.
    Other,
}

/// Why a datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken<E> {
    /// The policy forbids it.
    Refused(Refusal),
    /// It could not be written.
    Unwritable(E),
    /// More datagrams than [`Egress::allow_new`] or [`Egress::allow_other`] returned.
    OverRate,
}

/// Sends datagrams in batches. `K` is what the engine knows a transmit stamp by.
pub struct Egress<K> {
    policy: Policy,
    ports: Ports,
    pacer: Pacer,
    clock: Clock,
    batch: Batch,
    /// Of each datagram in the batch.
    classes: Vec<Class>,
    /// How many datagrams may still be added before the pacer is asked again.
    allowed_new: u64,
    allowed_other: u64,
    /// By number of the port.
    stamps: Vec<StampRequests<K>>,
    /// Whether an error about an earlier datagram was read after the last refusal.
    explained: bool,
}

impl<K> Egress<K> {
    /// Sends from `ports`, at most `rate` new probes per second, and so many times that plus a batch of all
    /// datagrams: the engine says how many a probe takes.
    pub fn new(policy: Policy, ports: Ports, (rate, per_probe): (f64, u64), clock: Clock) -> Self {
        Egress {
            stamps: (0..ports.len()).map(|_| StampRequests::default()).collect(),
            policy,
            ports,
            pacer: Pacer::new(rate, per_probe, clock.now()),
            clock,
            batch: Batch::new(),
            classes: Vec::with_capacity(BATCH),
            allowed_new: 0,
            allowed_other: 0,
            explained: false,
        }
    }

    /// Lets up to `batch` new probes leave at once, instead of those of 10 ms.
    pub fn in_batches(mut self, (rate, per_probe): (f64, u64), batch: u64) -> Self {
        self.pacer = Pacer::in_batches(rate, per_probe, batch, self.clock.now());
        self
    }

    /// Returns the policy in force.
    #[inline]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the source ports.
    #[inline]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Returns how many new probes leave at once at most.
    #[inline]
    pub fn burst(&self) -> u64 {
        self.pacer.batch()
    }

    /// Returns how many datagrams of class [`Class::New`] may be added now, and none of the other class: both
    /// together could pass the ceiling of all. None while the opt-out list is not confirmed.
    pub fn allow_new(&mut self, now: Mono) -> u64 {
        self.allowed_other = 0;
        self.allowed_new = match self.policy.look(now) {
            Trust::All => self.pacer.new_probes(now),
            Trust::Ending | Trust::None => 0,
        };
        self.allowed_new
    }

    /// Returns how many datagrams of class [`Class::Other`] may be added now, and none of the other class.
    pub fn allow_other(&mut self, now: Mono) -> u64 {
        self.allowed_new = 0;
        self.allowed_other = match self.policy.look(now) {
            Trust::All | Trust::Ending => self.pacer.others(now),
            Trust::None => 0,
        };
        self.allowed_other
    }

    /// Returns when the next datagram of class [`Class::New`] may leave.
    pub fn next_new(&self) -> Mono {
        self.pacer.next_new().max(self.policy.wait_for(Trust::All))
    }

    /// Returns when the next `count` datagrams of class [`Class::New`] may leave together.
    pub fn next_together(&self, count: u64) -> Mono {
        let held = self.policy.wait_for(Trust::All);
        self.pacer.next_together(count).max(held)
    }

    /// Returns when the next datagram of class [`Class::Other`] may leave.
    pub fn next_other(&self) -> Mono {
        let held = self.policy.wait_for(Trust::Ending);
        self.pacer.next_other().max(held)
    }

    /// Returns the most new probes, and the most datagrams, that left in any second.
    pub fn highest(&self) -> (u64, u64) {
        self.pacer.highest()
    }

    /// Returns whether the batch takes no more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// Adds a datagram to `to`, on behalf of `domain`, which `fill` writes; `stamp` asks for its transmit
    /// stamp. The batch must not be full.
    #[inline]
    pub fn push<E>(
        &mut self,
        to: SocketAddr,
        domain: &str,
        class: Class,
        stamp: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), NotTaken<E>> {
        let allowed = match class {
            Class::New => &mut self.allowed_new,
            Class::Other => &mut self.allowed_other,
        };
        let left = allowed.checked_sub(1).ok_or(NotTaken::OverRate)?;
        self.policy
            .check(to.ip(), domain)
            .map_err(NotTaken::Refused)?;
        self.batch
            .push(Some(to), stamp, fill)
            .map_err(NotTaken::Unwritable)?;
        *allowed = left;
        self.classes.push(class);
        Ok(())
    }

    /// Hands the batch from number `from` on to the kernel, by port number `port`. Returns how many
    /// datagrams it took, or why it did not take the first.
    pub fn send(&mut self, port: usize, from: usize) -> io::Result<usize> {
        let sent = self.batch.send(self.ports.get(port).as_fd(), from)?;
        let new = self.classes[from..from + sent]
            .iter()
            .filter(|class| **class == Class::New)
            .count() as u64;
        let now = self.clock.now();
        if new > 0 {
            self.pacer.sent_new(now, new);
        }
        if (new as usize) < sent {
            self.pacer.sent_others(now, sent as u64 - new);
        }
        Ok(sent)
    }

    /// Empties the batch.
    #[inline]
    pub fn clear(&mut self) {
        self.batch.clear();
        self.classes.clear();
    }

    /// Notes that the next transmit stamp of `port` is that of `key`. `earliest`: wall clock before sending.
    #[inline]
    pub fn await_stamp(&mut self, port: usize, key: K, earliest: Stamp) {
        self.stamps[port].push(StampRequest { key, earliest });
    }

    /// Returns whose transmit stamp number `number` of `port` is.
    #[inline]
    pub fn stamped(&mut self, port: usize, number: u32, stamp: Stamp) -> Option<K> {
        self.stamps[port]
            .take(number, stamp)
            .map(|request| request.key)
    }

    /// Numbers the transmit stamps of `port` from 0 again. Needed after a failed send, once the port's
    /// error queue is read: whether the datagram took a number differs between kernels.
    pub fn restart_stamps(&mut self, port: usize) {
        if self.ports.get(port).restart_stamps().is_ok() {
            self.stamps[port].restart();
        }
    }
}

#[cfg(test)]
mod tests;
