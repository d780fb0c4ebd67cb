//! Waiting for sockets that come and go (epoll).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};

use crate::Failure;
use crate::clock::{Mono, SECOND};

/// Most sockets that one call reports; the others come with the next one.
const EVENTS: usize = 256;

/// Watches sockets by their numbers.
pub struct Poll {
    epoll: OwnedFd,
    /// What a wait has reported: the kernel reports some changes only once.
    reported: Vec<u32>,
}

impl Poll {
    pub fn new() -> Result<Poll, Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|e| Failure::Usage(format!("the system gives no epoll: {e}")))?;
        Ok(Poll {
            epoll,
            reported: Vec::new(),
        })
    }

    /// Watches a socket for what comes.
    pub fn add(&self, number: u32, socket: &impl AsFd) -> io::Result<()> {
        self.watch(number, socket, epoll::EventFlags::IN)
    }

    /// Watches a socket that is read and written until the kernel has no more: it is reported when that
    /// changes.
    pub fn add_both(&self, number: u32, socket: &impl AsFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        self.watch(number, socket, flags)
    }

    fn watch(&self, number: u32, socket: &impl AsFd, flags: epoll::EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(u64::from(number));
        Ok(epoll::add(&self.epoll, socket, data, flags)?)
    }

    /// Returns the sockets on which something can be done.
    pub fn ready(&mut self) -> Vec<u32> {
        if self.reported.is_empty() {
            self.wait(0);
        }
        std::mem::take(&mut self.reported)
    }

    /// Sleeps until something comes, at most `longest`; a signal ends the wait.
    pub fn wait(&mut self, longest: Mono) {
        let mut events = [empty(); EVENTS];
        let found =
            epoll::wait(&self.epoll, &mut events[..], Some(&timespec(longest))).unwrap_or(0);
        let number = |event: &epoll::Event| event.data.u64() as u32;
        self.reported.extend(events[..found].iter().map(number));
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
