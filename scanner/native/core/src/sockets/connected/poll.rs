//! Waits for a changing set of sockets.

use std::io;
use std::os::fd::AsFd;

use crate::Failure;
use crate::clock::Mono;
use crate::sockets::epoll::{Epoll, EventFlags};

/// Most sockets that one call reports; the next call reports the others.
const EVENTS: usize = 256;

/// Watches numbered sockets.
pub struct Poll {
    epoll: Epoll,
    /// Sockets that a wait has reported. They are kept because the kernel reports some changes only once.
    reported: Vec<u32>,
}

impl Poll {
    pub fn new() -> Result<Poll, Failure> {
        Ok(Poll {
            epoll: Epoll::new()?,
            reported: Vec::new(),
        })
    }

    /// Watches a socket for input.
    pub fn add(&self, number: u32, socket: &impl AsFd) -> io::Result<()> {
        self.epoll.add(number, socket, EventFlags::IN)
    }

    /// Watches a socket for input and output, edge-triggered. The caller reads and writes until the kernel
    /// would block; the kernel then reports the next change.
    pub fn add_both(&self, number: u32, socket: &impl AsFd) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        self.epoll.add(number, socket, flags)
    }

    /// Returns the sockets that are ready, each once, and whether these are all.
    pub fn ready(&mut self) -> (Vec<u32>, bool) {
        // More sockets may have become ready since the last wait.
        let before = self.reported.len();
        self.wait(0);
        let all = self.reported.len() - before < EVENTS;
        let mut ready = std::mem::take(&mut self.reported);
        ready.sort_unstable();
        ready.dedup();
        (ready, all)
    }

    /// Sleeps until a socket is ready, at most `longest`. A signal interrupts the wait.
    pub fn wait(&mut self, longest: Mono) {
        self.reported.extend(self.epoll.wait::<EVENTS>(longest));
    }
}
