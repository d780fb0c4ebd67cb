//! The one way out: datagrams are handed to the kernel here, and here the lists are asked about the address that each of
//! them goes to.

pub mod mmsg;
pub mod ports;
pub mod socket;
pub mod stamps;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use crate::egress::mmsg::Outbox;
use crate::egress::socket::Port;
use crate::policy::{Policy, Refusal};

/// Why a datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken<E> {
    /// A list forbids it.
    Refused(Refusal),
    /// It could not be written.
    Unwritable(E),
}

/// A batch of datagrams behind the policy.
pub struct Egress {
    policy: Policy,
    outbox: Outbox,
}

impl Egress {
    /// An empty batch.
    pub fn new(policy: Policy) -> Self {
        Egress {
            policy,
            outbox: Outbox::new(),
        }
    }

    /// The lists in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    /// Adds a datagram to `to`, on behalf of `domain`, which `fill` writes; `stamp` asks for its transmit stamp. The batch
    /// must not be full.
    pub fn push<E>(
        &mut self,
        to: SocketAddr,
        domain: &str,
        stamp: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), NotTaken<E>> {
        self.policy
            .check(to.ip(), domain)
            .map_err(NotTaken::Refused)?;
        self.outbox
            .push(to, stamp, fill)
            .map_err(NotTaken::Unwritable)
    }

    /// Sends from number `from` on; see [`Outbox::send`].
    pub fn send(&mut self, port: &Port, from: usize) -> io::Result<usize> {
        self.outbox.send(port.as_fd(), from)
    }

    /// Forgets the batch.
    pub fn clear(&mut self) {
        self.outbox.clear();
    }
}

/// Whether a send failed because a queue of this machine was full: it is worth trying again a little later.
pub fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}
