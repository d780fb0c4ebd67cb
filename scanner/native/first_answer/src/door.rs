//! The one way out: datagrams are handed to the kernel here, and here the lists are asked about the address that each of
//! them goes to.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use crate::gate::{Gate, Refusal};
use crate::mmsg::Outbox;
use crate::socket::Port;

/// Why a datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// A list forbids it.
    Refused(Refusal),
    /// It could not be written.
    Unwritable(firstflight_wire::Error),
}

/// A batch of datagrams behind the gate.
pub struct Door {
    gate: Gate,
    outbox: Outbox,
}

impl Door {
    /// An empty batch.
    pub fn new(gate: Gate) -> Self {
        Door {
            gate,
            outbox: Outbox::new(),
        }
    }

    /// The lists in force.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    pub fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    /// Adds a datagram to `to`, on behalf of `domain`, which `fill` writes; `stamp` asks for its transmit stamp. The batch
    /// must not be full.
    pub fn push(
        &mut self,
        to: SocketAddr,
        domain: &str,
        stamp: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, firstflight_wire::Error>,
    ) -> Result<(), NotTaken> {
        self.gate
            .judge(to.ip(), domain)
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
