//! Finds the ports with something to read, now or within a given time.

use crate::Failure;
use crate::clock::Mono;
use crate::sockets::egress::Ports;
use crate::sockets::epoll::{Epoll, EventFlags};

/// Most ports that `ready` reports; the next call reports the others.
pub const MOST: usize = 256;

/// Watches all ports of a run.
pub struct Poll {
    epoll: Epoll,
}

impl Poll {
    /// Watches `ports`.
    pub fn new(ports: &Ports) -> Result<Poll, Failure> {
        let epoll = Epoll::new()?;
        for (number, port) in (0..).zip(ports.iter()) {
            epoll
                .add(number, port, EventFlags::IN)
                .map_err(|e| Failure::Usage(format!("cannot watch more sockets: {e}")))?;
        }
        Ok(Poll { epoll })
    }

    /// Returns the numbers of the ports with something to read. If there are fewer than [`MOST`], these are
    /// all.
    pub fn ready(&self) -> Vec<usize> {
        let numbers = self.epoll.wait::<MOST>(0);
        numbers.map(|number| number as usize).collect()
    }

    /// Sleeps until a port is ready, at most `longest`.
    pub fn wait(&self, longest: Mono) {
        // `ready` reports these ports again.
        let _ = self.epoll.wait::<1>(longest);
    }
}
