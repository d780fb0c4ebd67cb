//! Sockets connected to servers that answer questions: UDP with fresh source ports, TCP per question.
//!
//! [`crate::egress`] sends datagrams to targets; this module sends questions to a few servers. [`Connected`]
//! checks the policy right before every datagram and every TCP connection, accepts no more questions than the
//! server's rate allows, and counts them. Engines refer to sockets by number only.
//!
//! An off-path attacker can forge an answer by guessing the question's contents, so a source port serves for
//! few questions (RFC 5452 9.2). [`SOCKETS`] sockets per server are in use at a time, and each batch uses
//! a random one. A socket is replaced after [`QUESTIONS`] questions, and closed when the last of these is
//! finished. The kernel chooses the ports at random (RFC 6056 3.3.1) and drops datagrams from other senders.

mod poll;
mod server;
mod tcp;
mod udp;

use std::io;
use std::net::{IpAddr, SocketAddr};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use serde::Serialize;

use crate::Failure;
use crate::clock::{Clock, Mono, wall};
use crate::limits::policy::{Followed, Policy, Refusal, Trust};
use crate::sockets::egress::{BATCH, is_full};
use crate::sockets::messages::{Batch, Inbox};
use poll::Poll;
pub use server::Server;
use server::ServerState;
use tcp::{Progress, Tcp};
use udp::Udp;

/// Sockets in use at a time per server.
pub const SOCKETS: usize = 8;
/// Number of questions after which a socket is replaced.
pub const QUESTIONS: u32 = 100;
/// Most batches read from a socket before the next socket is read.
const READS: usize = 16;

/// An event on a socket.
pub enum Event<'a> {
    /// A datagram from the socket's server, and the arrival time.
    Datagram {
        socket: u32,
        bytes: &'a [u8],
        at: Mono,
    },
    /// A complete message over TCP, without the length prefix.
    Message {
        socket: u32,
        bytes: &'a [u8],
        at: Mono,
    },
    /// The socket reports an error (ICMP, or a refused or closed connection). The engine closes the socket.
    Failed { socket: u32, error: io::Error },
}

/// Why a question was not sent.
#[derive(Debug)]
pub enum Unsent {
    Refused(Refusal),
    System(io::Error),
}

/// The result of sending a batch.
#[derive(Debug, Default)]
pub struct Handed {
    /// Number of sent datagrams.
    pub left: usize,
    /// An error of earlier datagrams, which the kernel reports on the next send.
    pub earlier: Option<io::Error>,
    /// Why the other datagrams were not sent.
    pub refused: Option<io::Error>,
}

/// Counts of sent traffic, for the summary.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sent {
    pub datagrams: u64,
    /// TCP connections started.
    pub connections: u64,
    /// UDP sockets opened, each with a new source port.
    pub sockets: u64,
    /// Datagrams that arrived at a socket from an address other than the server's.
    pub from_elsewhere: u64,
}

enum Slot {
    Free,
    Udp(Udp),
    Tcp(Box<Tcp>),
}

/// A run's sockets. No other code uses them.
pub struct Connected {
    policy: Policy,
    clock: Clock,
    servers: Vec<ServerState>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    poll: Poll,
    batch: Batch,
    inbox: Inbox,
    random: ChaCha8Rng,
    sent: Sent,
    /// Time up to which all arrivals are read.
    drained: Mono,
}

impl Connected {
    /// Opens no socket yet. Fails if the policy forbids a server. `random` chooses sockets.
    pub fn new(
        policy: Policy,
        servers: &[Server],
        random: ChaCha8Rng,
        clock: Clock,
    ) -> Result<Connected, Failure> {
        for server in servers {
            let ip = server.address.ip();
            policy.check(ip, "").map_err(|why| refused(ip, why))?;
        }
        let now = clock.now();
        Ok(Connected {
            policy,
            clock,
            servers: servers
                .iter()
                .map(|server| ServerState::new(server, now))
                .collect(),
            slots: Vec::new(),
            free: Vec::new(),
            poll: Poll::new()?,
            batch: Batch::new(),
            inbox: Inbox::new(),
            random,
            sent: Sent::default(),
            drained: 0,
        })
    }

    /// Returns how many questions may leave to a server now: at most a batch, and 0 while the opt-out list is
    /// not confirmed.
    pub fn allow(&mut self, server: usize, now: Mono) -> usize {
        if self.policy.look(now) < Trust::All {
            return 0;
        }
        self.servers[server].allow(now).min(BATCH as u64) as usize
    }

    /// Returns the earliest time at which the next question may leave to a server.
    pub fn next_at(&self, server: usize) -> Mono {
        let held = self.policy.wait_for(Trust::All);
        self.servers[server].next_at().max(held)
    }

    /// Returns whether no question may be sent because the opt-out list is not confirmed.
    pub fn is_held(&self) -> bool {
        self.policy.trust() < Trust::All
    }

    /// Returns the summary's fields about the lists.
    pub fn followed(&self) -> Followed {
        self.policy.followed()
    }

    /// Returns the counts of sent traffic.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Returns the most questions sent to a server in any second; `None` if its rate is not limited.
    pub fn highest(&self, server: usize) -> Option<u64> {
        self.servers[server].highest()
    }

    /// Chooses the socket for the next batch to a server, and opens one if necessary.
    pub fn begin(&mut self, server: usize) -> Result<u32, Unsent> {
        let place = self.random.next_u32() as usize % SOCKETS;
        let current = &self.servers[server].current;
        if let Some(socket) = current.get(place) {
            return Ok(*socket);
        }
        let address = self.servers[server].address;
        self.check(address.ip())?;
        match Udp::open(address, server) {
            Ok(udp) => {
                let socket = self.place(Slot::Udp(udp)).map_err(Unsent::System)?;
                self.servers[server].current.push(socket);
                self.sent.sockets += 1;
                Ok(socket)
            }
            // No descriptor is free. A port that others may know is better than no question.
            Err(_) if !self.servers[server].current.is_empty() => {
                Ok(self.servers[server].current[0])
            }
            Err(error) => Err(Unsent::System(error)),
        }
    }

    /// Adds a question, which `fill` writes, to the batch of `socket`. Add at most as many questions as
    /// [`Self::allow`] returned.
    pub fn push(
        &mut self,
        socket: u32,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<(), Unsent> {
        let Some(Slot::Udp(udp)) = self.slots.get(socket as usize) else {
            return Err(Unsent::System(io::ErrorKind::NotConnected.into()));
        };
        self.check(self.servers[udp.server].address.ip())?;
        if self.batch.is_full() {
            return Err(Unsent::System(io::ErrorKind::WouldBlock.into()));
        }
        let filled = self.batch.push(None, false, |out| Ok::<_, ()>(fill(out)));
        filled.map_err(|()| Unsent::System(io::ErrorKind::InvalidInput.into()))
    }

    /// Sends the batch from `socket` and empties it. The first refusal may be about earlier datagrams, so the
    /// batch is then offered a second time.
    pub fn send(&mut self, socket: u32) -> Handed {
        let mut handed = Handed::default();
        if let Some(Slot::Udp(udp)) = self.slots.get_mut(socket as usize) {
            while handed.left < self.batch.len() && handed.refused.is_none() {
                match self.batch.send(udp.fd(), handed.left) {
                    Ok(taken) => handed.left += taken,
                    Err(error) if handed.earlier.is_none() && !is_full(&error) => {
                        handed.earlier = Some(error);
                    }
                    Err(error) => handed.refused = Some(error),
                }
            }
            let sent = handed.left;
            udp.open += sent as u32;
            udp.asked += sent as u32;
            self.sent.datagrams += sent as u64;
            let server = &mut self.servers[udp.server];
            server.sent(self.clock.now(), sent as u64);
            if udp.asked >= QUESTIONS {
                server.current.retain(|current| *current != socket);
                udp.retired = true;
            }
        }
        self.batch.clear();
        handed
    }

    /// Starts a TCP connection to a server for one question. A 16-bit length precedes the question (RFC 7766
    /// 5).
    pub fn connect(&mut self, server: usize, question: &[u8]) -> Result<u32, Unsent> {
        let address = self.servers[server].address;
        self.check(address.ip())?;
        let tcp = Tcp::connect(address, question).map_err(Unsent::System)?;
        let socket = self
            .place(Slot::Tcp(Box::new(tcp)))
            .map_err(Unsent::System)?;
        self.servers[server].sent(self.clock.now(), 1);
        self.sent.connections += 1;
        Ok(socket)
    }

    /// Notes that a question of this socket is finished, answered or not.
    pub fn over(&mut self, socket: u32) {
        let done = match self.slots.get_mut(socket as usize) {
            Some(Slot::Udp(udp)) => {
                udp.open = udp.open.saturating_sub(1);
                udp.retired && udp.open == 0
            }
            Some(Slot::Tcp(_)) => true,
            _ => false,
        };
        if done {
            self.close(socket);
        }
    }

    /// Closes a socket immediately.
    pub fn close(&mut self, socket: u32) {
        let Some(slot) = self.slots.get_mut(socket as usize) else {
            return;
        };
        // Dropping the descriptor also removes it from the epoll set.
        match std::mem::replace(slot, Slot::Free) {
            Slot::Free => return,
            Slot::Udp(udp) => {
                let current = &mut self.servers[udp.server].current;
                current.retain(|current| *current != socket);
            }
            Slot::Tcp(_) => {}
        }
        self.free.push(socket);
    }

    /// Reads all sockets that are ready, and calls `each` for every event. Returns the time up to which all
    /// arrivals are read.
    pub fn read(&mut self, mut each: impl FnMut(Event<'_>)) -> Mono {
        let (now, wall_now) = (self.clock.now(), wall());
        let (ready, mut drained) = self.poll.ready();
        for socket in ready {
            match self.slots.get_mut(socket as usize) {
                Some(Slot::Udp(udp)) => {
                    let (elsewhere, empty) =
                        udp.read(&mut self.inbox, READS, |datagram| match datagram {
                            Ok((bytes, stamp)) => {
                                // Age of the datagram by the kernel's stamp. A negative age or an age of a
                                // second or more counts as 0, because the clock may have been set in between.
                                let age =
                                    stamp.and_then(|stamp| u64::try_from(wall_now - stamp).ok());
                                let age =
                                    age.filter(|age| *age < crate::clock::SECOND).unwrap_or(0);
                                let at = now.saturating_sub(age);
                                each(Event::Datagram { socket, bytes, at });
                            }
                            Err(error) => each(Event::Failed { socket, error }),
                        });
                    self.sent.from_elsewhere += elsewhere;
                    drained &= empty;
                }
                Some(Slot::Tcp(tcp)) => match tcp.advance() {
                    Progress::Waits => {}
                    Progress::Message(bytes) => each(Event::Message {
                        socket,
                        bytes,
                        at: now,
                    }),
                    Progress::Failed(error) => each(Event::Failed { socket, error }),
                },
                _ => {}
            }
        }
        if drained {
            self.drained = now;
        }
        self.drained
    }

    /// Sleeps until a socket is ready, at most `longest`.
    pub fn wait(&mut self, longest: Mono) {
        self.poll.wait(longest);
    }

    fn check(&self, ip: IpAddr) -> Result<(), Unsent> {
        self.policy.check(ip, "").map_err(Unsent::Refused)
    }

    fn place(&mut self, slot: Slot) -> io::Result<u32> {
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        let watched = match &slot {
            Slot::Udp(udp) => self.poll.add(number, udp),
            Slot::Tcp(tcp) => self.poll.add_both(number, &**tcp),
            Slot::Free => Ok(()),
        };
        if number as usize == self.slots.len() {
            self.slots.push(Slot::Free);
        }
        match watched {
            Ok(()) => self.slots[number as usize] = slot,
            Err(_) => self.free.push(number),
        }
        watched.map(|()| number)
    }
}

/// Returns the error about a server that may not be contacted.
fn refused(ip: IpAddr, why: Refusal) -> Failure {
    Failure::Usage(match why {
        Refusal::NotTheLab => format!(
            "{ip} is an address of the lab, and this is not the lab: ask it from there (firstflight \
             lab exec HOST ...), or mark the namespace of a test (ip link set lo alias \
             firstflight-lab); nothing was sent"
        ),
        why => format!("the server {ip} may not be contacted: {why}; nothing was sent"),
    })
}

/// Returns whether `peer`, a datagram's sender, is the server. The zone of a link-local address is not
/// compared.
fn is_server(server: SocketAddr, peer: SocketAddr) -> bool {
    (server.ip(), server.port()) == (peer.ip(), peer.port())
}

#[cfg(test)]
mod tests;
