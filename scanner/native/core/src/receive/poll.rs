//! Waiting for the ports: which have something to read, now or within a time (epoll).

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};

use crate::Failure;
use crate::clock::{Mono, SECOND};
use crate::egress::Ports;

/// Watches all ports of a run.
pub struct Poll {
    epoll: OwnedFd,
    ports: usize,
}

impl Poll {
    /// Watches `ports`.
    pub fn new(ports: &Ports) -> Result<Poll, Failure> {
        let no_epoll =
            |e: rustix::io::Errno| Failure::Usage(format!("the system gives no epoll: {e}"));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(no_epoll)?;
        for (number, port) in ports.iter().enumerate() {
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, port.as_fd(), data, epoll::EventFlags::IN).map_err(no_epoll)?;
        }
        Ok(Poll {
            epoll,
            ports: ports.len(),
        })
    }

    /// Returns the numbers of the ports with something to read.
    pub fn ready(&self) -> Vec<usize> {
        let mut events = vec![empty(); self.ports];
        let n = epoll::wait(&self.epoll, &mut events[..], Some(&timespec(0))).unwrap_or(0);
        events[..n]
            .iter()
            .map(|event| event.data.u64() as usize)
            .collect()
    }

    /// Sleeps until something comes, at most `longest`.
    pub fn wait(&self, longest: Mono) {
        // A signal ends the wait, as it should.
        let _ = epoll::wait(&self.epoll, &mut [empty()][..], Some(&timespec(longest)));
    }
}

fn empty() -> epoll::Event {
    epoll::Event {
        flags: epoll::EventFlags::empty(),
        data: epoll::EventData::new_u64(0),
    }
}

fn timespec(wait: Mono) -> Timespec {
    Timespec {
        tv_sec: (wait / SECOND) as i64,
        tv_nsec: (wait % SECOND) as i64,
    }
}
