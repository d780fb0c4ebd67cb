//! TCP connections to targets. Each is reset as soon as it is established. They show which options a SYN and
//! its SYN-ACK agree on.
//!
//! [`crate::egress`] sends datagrams to targets; this module connects to them. [`Connects`] checks the policy
//! for every address right before the SYN leaves, starts no more connections than the rate allows, and counts
//! them. Engines refer to connections by number only.
//!
//! The kernel retransmits SYNs, up to [`SYNS`] SYNs per connection. Closing an established connection resets
//! it (SO_LINGER 0), so that no server waits for the end of a connection.

mod agreed;
mod descriptors;
mod ecn;
mod socket;

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::Failure;
use crate::clock::{Clock, Mono};
use crate::limits::policy::{Policy, Refusal, Trust};
use crate::limits::rate_limit::Pacer;
use crate::sockets::epoll::{Epoll, EventFlags};
pub use agreed::Agreed;
use descriptors::raise_limit;
use socket::Connecting;
pub use socket::SYNS;

/// Most connections that one wait reports; the next wait reports the others.
const EVENTS: usize = 256;

/// Most sources and ports tried for a connection while other programs use them.
const MOST_TAKEN: usize = 16;

/// Why a connection was not started. Nothing was sent.
#[derive(Debug)]
pub enum NotBegun {
    /// The policy forbids it.
    Refused(Refusal),
    /// More connections than [`Connects::allow_new`] or [`Connects::room`] returned.
    OverRate,
    System(io::Error),
}

/// How a connection ended.
#[derive(Debug)]
pub enum Verdict {
    /// The server answered the SYN with a SYN-ACK.
    Open(Agreed),
    /// The server answered with a SYN-ACK that does not agree to ECN. The kernel did not see this SYN-ACK: a
    /// second connection, with [`Ecn::Known`], finds the other options.
    NotEcn,
    /// The kernel gave up the connection, or a host refused it.
    Failed(io::Error),
}

/// Whether a connection has to find out if the server agrees to ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    Asked,
    /// ECN was not offered, or the answer is already known. The kernel's report about ECN is ignored.
    Known,
}

/// The source addresses and ports of connections.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Addresses, used in turn. For a family without an address, the routing table chooses.
    pub sources: Vec<IpAddr>,
    /// First and last port, used in turn; `None`: the system chooses.
    pub ports: Option<(u16, u16)>,
}

/// A run's connections. No other code starts connections.
pub struct Connects {
    policy: Policy,
    from: Origin,
    pacer: Pacer,
    clock: Clock,
    allowed: u64,
    /// Selects the next source and port.
    turn: usize,
    open: Vec<Option<Connecting>>,
    free: Vec<u32>,
    /// Connections that ended while they were started.
    at_once: Vec<u32>,
    epoll: Epoll,
    reported: Vec<u32>,
    /// Time up to which all finished connections are read.
    drained: Mono,
}

impl Connects {
    /// Starts at most `rate` connections per second and keeps at most `most` open, or fewer if the system
    /// permits fewer descriptors. Does not open a connection yet.
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

    /// Reads changed lists again, a few times a second at most. Returns the trust in the lists.
    pub fn look(&mut self, now: Mono) -> Trust {
        self.policy.look(now)
    }

    /// Returns how many connections may be started in addition to the open ones.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Returns how many connections the rate allows now; 0 while the opt-out list is not confirmed.
    pub fn allow_new(&mut self, now: Mono) -> u64 {
        self.allowed = match self.policy.look(now) {
            Trust::All => self.pacer.new_probes(now),
            Trust::Ending | Trust::None => 0,
        };
        self.allowed
    }

    /// Returns the time at which the rate allows the next connection.
    pub fn next_new(&self) -> Mono {
        self.pacer.next_new().max(self.policy.wait_for(Trust::All))
    }

    /// Returns the most connections and the most datagrams in any second. Both numbers are equal: a
    /// connection counts as one datagram.
    pub fn highest(&self) -> (u64, u64) {
        self.pacer.highest()
    }

    /// Opens a connection from the next source and port, or from a later pair if other programs use it.
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

    /// Starts a connection to `to` on behalf of `domain`. Returns the number, and the local address if the
    /// system reports it.
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
        // A connection that the system refuses also counts. Otherwise a list could be used up faster than the
        // rate.
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

    /// Closes the connections that ended since the last call, and calls `each` with their verdicts. Returns
    /// the time up to which all finished connections are read.
    pub fn read(&mut self, mut each: impl FnMut(u32, Verdict)) -> Mono {
        let now = self.clock.now();
        // More connections may have ended since the last wait.
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
            // Dropping the descriptor resets an open connection and removes it from the epoll set.
            *slot = None;
            self.free.push(number);
            each(number, result);
        }
        self.drained
    }

    /// Returns whether an unfinished connection received a SYN-ACK that does not agree to ECN. The verdict is
    /// then [`Verdict::NotEcn`] already, although the kernel would continue to wait.
    pub fn is_not_ecn(&self, number: u32) -> bool {
        let slot = self.open.get(number as usize);
        slot.is_some_and(|open| open.as_ref().is_some_and(Connecting::has_dropped))
    }

    /// Abandons a connection.
    pub fn close(&mut self, number: u32) {
        if let Some(slot) = self.open.get_mut(number as usize)
            && slot.take().is_some()
        {
            self.at_once.retain(|other| *other != number);
            self.reported.retain(|other| *other != number);
            self.free.push(number);
        }
    }

    /// Sleeps until a connection has ended, at most `longest`.
    pub fn wait(&mut self, longest: Mono) {
        let longest = if self.at_once.is_empty() { longest } else { 0 };
        self.reported.extend(self.epoll.wait::<EVENTS>(longest));
    }
}

/// Returns whether another program uses the port.
fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

#[cfg(test)]
mod tests;
