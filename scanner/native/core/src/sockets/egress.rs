//! The only way out: this module hands every datagram of every engine to the kernel.
//!
//! [`Egress`] checks the policy for the destination of each datagram, accepts no more datagrams than the rate
//! allows at the moment, and counts the datagrams that left. Engines never see a socket.

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
use crate::limits::policy::{Policy, Refusal, Trust};
use crate::limits::rate_limit::Pacer;
use crate::sockets::messages::Batch;
use stamps::{StampRequest, StampRequests};

pub use crate::sockets::messages::BATCH;

/// The limits that a datagram counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The first datagram to a target. It counts against the rate of new probes and the limit on all
    /// datagrams.
    New,
    /// Any other datagram. It counts against the limit on all datagrams.
    Other,
}

/// Why a datagram was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken<E> {
    /// The policy forbids it.
    Refused(Refusal),
    /// It could not be written.
    Unwritable(E),
    /// More datagrams than [`Egress::allow_new`] or [`Egress::allow_other`] returned.
    OverRate,
}

/// Sends datagrams in batches. `K` is the engine's key for a transmit stamp.
pub struct Egress<K> {
    policy: Policy,
    ports: Ports,
    pacer: Pacer,
    clock: Clock,
    batch: Batch,
    /// The class of each datagram in the batch.
    classes: Vec<Class>,
    /// How many datagrams may still be added before the next call of the pacer.
    allowed_new: u64,
    allowed_other: u64,
    /// By port number.
    stamps: Vec<StampRequests<K>>,
    /// Whether an error about an earlier datagram was read after the last refusal.
    explained: bool,
}

impl<K> Egress<K> {
    /// Sends from `ports`. The limits are `rate` new probes per second, and `per_probe` times `rate` plus a
    /// batch of datagrams of all kinds. `per_probe` is the number of datagrams per probe of the engine.
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

    /// Lets up to `batch` new probes leave together, instead of the probes of 10 ms.
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

    /// Returns the most new probes that leave together.
    #[inline]
    pub fn burst(&self) -> u64 {
        self.pacer.batch()
    }

    /// Returns how many datagrams of class [`Class::New`] may be added now; 0 while the opt-out list is not
    /// confirmed. Datagrams of the other class may not be added, because both classes together could exceed
    /// the limit on all datagrams.
    pub fn allow_new(&mut self, now: Mono) -> u64 {
        self.allowed_other = 0;
        self.allowed_new = match self.policy.look(now) {
            Trust::All => self.pacer.new_probes(now),
            Trust::Ending | Trust::None => 0,
        };
        self.allowed_new
    }

    /// Returns how many datagrams of class [`Class::Other`] may be added now. Datagrams of the other class
    /// may not be added.
    pub fn allow_other(&mut self, now: Mono) -> u64 {
        self.allowed_new = 0;
        self.allowed_other = match self.policy.look(now) {
            Trust::All | Trust::Ending => self.pacer.other_room(now),
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

    /// Returns the most new probes and the most datagrams that left in any second.
    pub fn highest(&self) -> (u64, u64) {
        self.pacer.highest()
    }

    /// Returns whether the batch is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// Adds a datagram to `to` on behalf of `domain`. `fill` writes the datagram; `stamp` requests its
    /// transmit stamp. The batch must not be full.
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

    /// Hands the datagrams of the batch from number `from` on to the kernel, through port number `port`.
    /// Returns how many datagrams the kernel accepted, or why it did not accept the first.
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

    /// Notes that the next transmit stamp of `port` belongs to `key`. `earliest`: wall clock before sending.
    #[inline]
    pub fn await_stamp(&mut self, port: usize, key: K, earliest: Stamp) {
        self.stamps[port].push(StampRequest { key, earliest });
    }

    /// Returns the key of the datagram that transmit stamp number `number` of `port` belongs to.
    #[inline]
    pub fn stamped(&mut self, port: usize, number: u32, stamp: Stamp) -> Option<K> {
        self.stamps[port]
            .take(number, stamp)
            .map(|request| request.key)
    }

    /// Restarts the numbers of the transmit stamps of `port` at 0. This is needed after a failed send, once
    /// the port's error queue is read: kernels differ in whether a failed datagram has a number.
    pub fn restart_stamps(&mut self, port: usize) {
        if self.ports.get(port).restart_stamps().is_ok() {
            self.stamps[port].restart();
        }
    }
}

#[cfg(test)]
mod tests;
