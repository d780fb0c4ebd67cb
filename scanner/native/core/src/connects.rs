//! TCP connections to targets that are reset as soon as they are open: for what a SYN and its answer agree on.
//!
//! As [`crate::egress`] is the way out for datagrams to targets, this is the one for connections to them:
//! [`Connects`] asks the policy about every address right before the SYN leaves, begins no more connections
//! than the rate allows, and counts them. Engines know connections by number only.
//!
//! The kernel sends SYNs again by itself, at most [`SYNS`] in all, and resets what was open when a connection
//! is closed (SO_LINGER 0), so that no server waits for its end.

mod agreed;
mod descriptors;
mod ecn;
mod socket;

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::Failure;
use crate::clock::{Clock, Mono};
use crate::epoll::{Epoll, EventFlags};
use crate::policy::{Policy, Refusal, Trust};
use crate::rate_limit::Pacer;
pub use agreed::Agreed;
use descriptors::raise_limit;
use socket::Connecting;
pub use socket::SYNS;

/// Most connections that one wait reports; the others come with the next one.
const EVENTS: usize = 256;

/// So many sources and ports are tried for a connection if other programs have them.
const MOST_TAKEN: usize = 16;

/// Why a connection was not begun; nothing was sent.
#[derive(Debug)]
pub enum NotBegun {
    /// The policy forbids it.
    Refused(Refusal),
    /// More connections than [`Connects::allow_new`] returned, or than [`Connects::room`].
    OverRate,
    System(io::Error),
}

/// How a connection ended.
#[derive(Debug)]
pub enum Verdict {
    /// The server answered the SYN with a SYN-ACK.
    Open(Agreed),
    /// The server answered with a SYN-ACK that does not agree to ECN, which the kernel did not see: another
    /// connection, with [`Ecn::Known`], tells the rest.
    NotEcn,
    /// The kernel gave the connection up, or somebody refused it.
    Failed(io::Error),
}

/// Whether a connection is to tell if the server agrees to ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    Asked,
    /// It was not offered, or the answer is known: what the kernel says of it does not count.
    Known,
}

/// Where connections leave from.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Addresses, taken in turn; of a family without one, the routing table's.
    pub sources: Vec<IpAddr>,
    /// First and last port, taken in turn; without them the system chooses.
    pub ports: Option<(u16, u16)>,
}

/// The connections of a run, and the only place where they are begun.
pub struct Connects {
    policy: Policy,
    from: Origin,
    pacer: Pacer,
    clock: Clock,
    allowed: u64,
    /// Of the sources.
    turn: usize,
    open: Vec<Option<Connecting>>,
    free: Vec<u32>,
    /// Those that ended while they were begun.
    at_once: Vec<u32>,
    epoll: Epoll,
    reported: Vec<u32>,
    /// Up to when all ends are read.
    drained: Mono,
}

impl Connects {
    /// Begins at most `rate` connections per second, at most `most` of them open at a time, fewer if the
    /// system does not give so many descriptors. Opens none yet.
    pub fn new(
        policy: Policy,
        from: Origin,
        (rate, most): (f64, usize),
        clock: Clock,
    ) -> Result<Connects, Failure> {
        let most = most.min(raise_limit()?);
        Ok(Connects {
            policy,
            from,
            pacer: Pacer::new(rate, 1, clock.now()),
            clock,
            allowed: 0,
            turn: 0,
            open: (0..most).map(|_| None).collect(),
            free: (0..most as u32).rev().collect(),
            at_once: Vec::new(),
            epoll: Epoll::new()?,
            reported: Vec::new(),
            drained: 0,
        })
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Reads lists again that have changed, a few times a second at most; returns what may be sent now.
    pub fn look(&mut self, now: Mono) -> Trust {
        self.policy.look(now)
    }

    /// Returns how many connections may be begun besides those that are open.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Returns how many connections the rate allows now; none while the opt-out list is not confirmed.
    pub fn allow_new(&mut self, now: Mono) -> u64 {
        self.allowed = match self.policy.look(now) {
            Trust::All => self.pacer.new_probes(now),
            Trust::Ending | Trust::None => 0,
        };
        self.allowed
    }

    /// Returns when the rate allows the next one.
    pub fn next_new(&self) -> Mono {
        self.pacer.next_new().max(self.policy.wait_for(Trust::All))
    }

    /// Returns the most connections that began in any second, twice: each counts as one datagram.
    pub fn highest(&self) -> (u64, u64) {
        self.pacer.highest()
    }

    /// Opens a connection from the next source and port, or from one behind them if others have these.
    fn open(&mut self, to: SocketAddr, ecn: Ecn) -> io::Result<Connecting> {
        let mut tries = 0;
        loop {
            let opened = Connecting::open(to, &self.from, self.turn, ecn);
            self.turn = self.turn.wrapping_add(1);
            tries += 1;
            match opened {
                Err(error) if is_taken(&error) && tries < MOST_TAKEN => {}
                opened => return opened,
            }
        }
    }

    /// Begins a connection to `to`, on behalf of `domain`. Returns its number, and where it comes from if the
    /// system says that.
    pub fn begin(
        &mut self,
        to: SocketAddr,
        domain: &str,
        ecn: Ecn,
    ) -> Result<(u32, Option<SocketAddr>), NotBegun> {
        let left = self.allowed.checked_sub(1).ok_or(NotBegun::OverRate)?;
        self.policy
            .check(to.ip(), domain)
            .map_err(NotBegun::Refused)?;
        let number = *self.free.last().ok_or(NotBegun::OverRate)?;
        // What the system refuses takes its share as well: a list is not given up faster than the rate.
        self.allowed = left;
        self.pacer.sent_new(self.clock.now(), 1);
        let connecting = self.open(to, ecn).map_err(NotBegun::System)?;
        self.free.pop();
        if connecting.has_failed() {
            self.at_once.push(number);
        } else {
            let watched = self.epoll.add(number, &connecting, EventFlags::OUT);
            if let Err(error) = watched {
                self.free.push(number);
                return Err(NotBegun::System(error));
            }
        }
        let local = connecting.local();
        self.open[number as usize] = Some(connecting);
        Ok((number, local))
    }

    /// Closes the connections that ended since the last call, and calls `each` with how. Returns the time up
    /// to which all ends are read.
    pub fn read(&mut self, mut each: impl FnMut(u32, Verdict)) -> Mono {
        let now = self.clock.now();
        // More may have ended since the last wait.
        let before = self.reported.len();
        self.wait(0);
        if self.reported.len() - before < EVENTS {
            self.drained = now;
        }
        let ended = std::mem::take(&mut self.reported);
        for number in self.at_once.drain(..).chain(ended) {
            let slot = &mut self.open[number as usize];
            let Some(result) = slot.as_mut().and_then(Connecting::verdict) else {
                continue;
            };
            // Dropping the descriptor resets what is open and takes it out of the epoll set.
            *slot = None;
            self.free.push(number);
            each(number, result);
        }
        self.drained
    }

    /// Returns whether a connection that has not ended was answered by a SYN-ACK that does not agree to ECN: it is
    /// [`Verdict::NotEcn`] already, and the kernel would go on to wait.
    pub fn is_not_ecn(&self, number: u32) -> bool {
        let slot = self.open.get(number as usize);
        slot.is_some_and(|open| open.as_ref().is_some_and(Connecting::has_dropped))
    }

    /// Gives a connection up.
    pub fn close(&mut self, number: u32) {
        if let Some(slot) = self.open.get_mut(number as usize)
            && slot.take().is_some()
        {
            self.at_once.retain(|other| *other != number);
            self.reported.retain(|other| *other != number);
            self.free.push(number);
        }
    }

    /// Sleeps until a connection ends, at most `longest`.
    pub fn wait(&mut self, longest: Mono) {
        let longest = if self.at_once.is_empty() { longest } else { 0 };
        self.reported.extend(self.epoll.wait::<EVENTS>(longest));
    }
}

/// Returns whether another program has the port.
fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

#[cfg(test)]
mod tests;
