//! Waits for sockets by number (epoll).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};

pub use rustix::event::epoll::EventFlags;

use crate::Failure;
use crate::clock::{Mono, SECOND};

/// Watches sockets. A closed socket is no longer watched.
pub struct Epoll {
    epoll: OwnedFd,
}

impl Epoll {
    pub fn new() -> Result<Epoll, Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|e| Failure::Usage(format!("cannot create an epoll instance: {e}")))?;
        Ok(Epoll { epoll })
    }

    /// Watches a socket for `flags`, and reports it as `number`.
    pub fn add(&self, number: u32, socket: &impl AsFd, flags: EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(u64::from(number));
        Ok(epoll::add(&self.epoll, socket, data, flags)?)
    }

    /// Sleeps until a socket is ready, at most `longest`; a signal interrupts the wait. Returns the numbers
    /// of at most `N` sockets; the next call returns the others.
    pub fn wait<const N: usize>(&self, longest: Mono) -> impl Iterator<Item = u32> + use<N> {
        let none = epoll::Event {
            flags: EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        let longest = Timespec {
            tv_sec: (longest / SECOND) as i64,
            tv_nsec: (longest % SECOND) as i64,
        };
        let mut events = [none; N];
        let found = epoll::wait(&self.epoll, &mut events[..], Some(&longest)).unwrap_or(0);
        let numbers = events.into_iter().take(found);
        numbers.map(|event| event.data.u64() as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn sockets_are_reported_by_their_numbers() {
        let sockets: Vec<_> = (0..3)
            .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
            .collect();
        let epoll = Epoll::new().unwrap();
        for (number, socket) in (7..).zip(&sockets) {
            epoll.add(number, socket, EventFlags::IN).unwrap();
        }
        assert_eq!(epoll.wait::<4>(0).count(), 0);
        for to in &sockets[1..] {
            sockets[0]
                .send_to(b"datagram", to.local_addr().unwrap())
                .unwrap();
        }
        let numbers = |mut found: Vec<u32>| {
            found.sort_unstable();
            found
        };
        assert_eq!(numbers(epoll.wait::<4>(SECOND).collect()), [8, 9]);
        // The next wait returns the other socket.
        let first: Vec<_> = epoll.wait::<1>(SECOND).collect();
        let second: Vec<_> = epoll.wait::<1>(SECOND).collect();
        assert_eq!(numbers([first, second].concat()), [8, 9]);
    }

    #[test]
    fn a_wait_ends_when_its_time_is_over() {
        let begins = Instant::now();
        assert_eq!(Epoll::new().unwrap().wait::<1>(SECOND / 50).count(), 0);
        assert!(begins.elapsed() >= Duration::from_millis(20));
    }
}
