//! Reads the ports and their error queues. An engine sees datagrams, ICMP messages and transmit stamps.

mod poll;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;

pub use crate::sockets::messages::{Control, ExtendedError};

use crate::Failure;
use crate::clock::{Clock, Mono, Stamp};
use crate::sockets::egress::socket::Port;
use crate::sockets::egress::{BATCH, Ports};
use crate::sockets::messages::Inbox;
use poll::{MOST, Poll};

/// Most batches read from a port before the next port is read.
const READS: usize = 16;

/// SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, SO_EE_ORIGIN_TIMESTAMPING (linux/errqueue.h).
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;
const ORIGIN_STAMP: u8 = 4;

/// An ICMP message about a datagram that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Type and code of the message, of ICMP or, with `v6`, of ICMPv6.
    pub kind: u8,
    pub code: u8,
    pub v6: bool,
    /// Sender of the message.
    pub offender: Option<IpAddr>,
}

impl Icmp {
    /// Returns whether it reports an unreachable port.
    pub fn is_port_unreachable(&self) -> bool {
        (self.kind, self.code) == if self.v6 { (1, 4) } else { (3, 3) }
    }
}

/// An event on a port.
pub enum Event<'a> {
    /// A datagram from `peer`.
    Datagram {
        peer: SocketAddr,
        control: &'a Control,
        bytes: &'a mut [u8],
    },
    /// An ICMP message that quotes a datagram to `to`. `quote` is the quoted part of the payload.
    Icmp {
        to: SocketAddr,
        icmp: Icmp,
        quote: &'a [u8],
    },
    /// Transmit stamp number `number`; see [`crate::egress::Egress::stamped`].
    Stamp { number: u32, stamp: Stamp },
}

/// Reads all ports of a run.
pub struct Receiver {
    poll: Poll,
    ports: Vec<Rc<Port>>,
    datagrams: Inbox,
    errors: Inbox,
    clock: Clock,
    /// Time up to which all arrivals are read.
    drained: Mono,
}

impl Receiver {
    /// Watches `ports`.
    pub fn new(ports: &Ports, clock: Clock) -> Result<Receiver, Failure> {
        Ok(Receiver {
            poll: Poll::new(ports)?,
            ports: (0..ports.len()).map(|number| ports.get(number)).collect(),
            datagrams: Inbox::new(),
            errors: Inbox::of_errors(),
            clock,
            drained: 0,
        })
    }

    /// Reads all ports, error queues first, and calls `each` with the port number and the event. Returns the
    /// time up to which all arrivals are read.
    pub fn read_all(&mut self, mut each: impl FnMut(usize, Event<'_>)) -> Mono {
        let before = self.clock.now();
        let ready = self.poll.ready();
        let mut drained = ready.len() < MOST;
        for port in ready {
            self.read_errors(port, &mut each);
            drained &= self.read_datagrams(port, &mut each);
        }
        if drained {
            self.drained = before;
        }
        self.drained
    }

    /// Reads a port's datagrams. Returns whether the port is empty now.
    fn read_datagrams(&mut self, port: usize, each: &mut impl FnMut(usize, Event<'_>)) -> bool {
        for _ in 0..READS {
            let socket = self.ports[port].as_fd();
            let read = self.datagrams.receive(socket, false, |got| {
                if let Some(peer) = got.peer {
                    let (control, bytes) = (&got.control, got.bytes);
                    each(
                        port,
                        Event::Datagram {
                            peer,
                            control,
                            bytes,
                        },
                    );
                }
            });
            // An error here belongs to an ICMP message that the error queue has already reported.
            if read.is_ok_and(|n| n < BATCH) {
                return true;
            }
        }
        false
    }

    /// Reads a port's error queue until it is empty: transmit stamps and ICMP.
    pub fn read_errors(&mut self, port: usize, each: &mut impl FnMut(usize, Event<'_>)) {
        for _ in 0..READS {
            let socket = self.ports[port].as_fd();
            let read = self.errors.receive(socket, true, |got| {
                let Some(error) = got.control.error else {
                    return;
                };
                match (error.origin, got.peer, got.control.stamp) {
                    (ORIGIN_STAMP, _, Some(stamp)) => {
                        let number = error.data;
                        each(port, Event::Stamp { number, stamp });
                    }
                    (ORIGIN_ICMP | ORIGIN_ICMP6, Some(to), _) => {
                        let icmp = Icmp {
                            kind: error.kind,
                            code: error.code,
                            v6: error.origin == ORIGIN_ICMP6,
                            offender: error.offender,
                        };
                        let quote = &*got.bytes;
                        each(port, Event::Icmp { to, icmp, quote });
                    }
                    _ => {}
                }
            });
            // A later arrival makes the port ready again.
            if read.is_ok_and(|n| n < BATCH) {
                break;
            }
        }
    }

    /// Sleeps until a port is ready, at most `longest`.
    pub fn wait(&self, longest: Mono) {
        self.poll.wait(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn not_all_is_read_while_more_ports_may_wait() {
        let loopback = [IpAddr::from([127, 0, 0, 1])];
        let range = Some((20_000, 20_299));
        let ports = Ports::bind(&loopback, range, [true, false], 7).unwrap();
        let mut receiver = Receiver::new(&ports, Clock::start()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for local in ports.locals() {
            sender.send_to(b"datagram", local).unwrap();
        }
        let mut heard = std::collections::BTreeSet::new();
        let first = receiver.read_all(|port, _| assert!(heard.insert(port)));
        assert_eq!((heard.len(), first), (MOST, 0));
        let second = receiver.read_all(|port, _| assert!(heard.insert(port)));
        assert_eq!(heard.len(), 300);
        assert!(second > 0);
    }

    #[test]
    fn port_unreachable_has_a_type_and_code_in_each_family() {
        for (v6, kind, code, expected) in [
            (false, 3, 3, true),
            (false, 3, 1, false),
            (false, 1, 4, false),
            (true, 1, 4, true),
            (true, 1, 3, false),
            (true, 3, 3, false),
        ] {
            let icmp = Icmp {
                kind,
                code,
                v6,
                offender: None,
            };
            assert_eq!(icmp.is_port_unreachable(), expected, "{icmp:?}");
        }
    }
}
