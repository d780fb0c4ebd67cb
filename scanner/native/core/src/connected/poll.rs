//! Waiting for sockets that come and go.

use std::io;
use std::os::fd::AsFd;

use crate::Failure;
use crate::clock::Mono;
use crate::epoll::{Epoll, EventFlags};

/// Most sockets that one call reports; the others come with the next one.
const EVENTS: usize = 256;

/// Watches sockets by their numbers.
pub struct Poll {
    epoll: Epoll,
    /// What a wait has reported: the kernel reports some changes only once.
    reported: Vec<u32>,
}

impl Poll {
    pub fn new() -> Result<Poll, Failure> {
        Ok(Poll {
            epoll: Epoll::new()?,
            reported: Vec::new(),
        })
    }

    /// Watches a socket for what comes.
    pub fn add(&self, number: u32, socket: &impl AsFd) -> io::Result<()> {
        self.epoll.add(number, socket, EventFlags::IN)
    }

    /// Watches a socket that is read and written until the kernel has no more: it is reported when that
    /// changes.
    pub fn add_both(&self, number: u32, socket: &impl AsFd) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        self.epoll.add(number, socket, flags)
    }

    /// Returns the sockets on which something can be done, each once, and whether these are all.
    pub fn ready(&mut self) -> (Vec<u32>, bool) {
        // More may have come since the last wait.
        let before = self.reported.len();
        self.wait(0);
        let all = self.reported.len() - before < EVENTS;
        let mut ready = std::mem::take(&mut self.reported);
        ready.sort_unstable();
        ready.dedup();
        (ready, all)
    }

    /// Sleeps until something comes, at most `longest`; a signal ends the wait.
    pub fn wait(&mut self, longest: Mono) {
        self.reported.extend(self.epoll.wait::<EVENTS>(longest));
    }
}
