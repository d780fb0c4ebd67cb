//! Sockets connected to servers that answer questions: UDP with fresh source ports, TCP per question.
//!
//! As [`crate::egress`] is the way out for datagrams to targets, this is the one for questions to a few
//! servers: [`Connected`] asks the policy about every datagram and every TCP connection right before it
//! leaves, takes no more than the server's rate allows, and counts. Engines know sockets by number only.
//!
//! A question can be forged from elsewhere by guessing what it carries, so a source port serves for few
//! questions (RFC 5452 9.2): [`SOCKETS`] sockets per server are in use at a time, one chosen at random for
//! each batch, and each is replaced after [`QUESTIONS`] questions. It is closed when the last of them is
//! over. The kernel chooses the ports at random (RFC 6056 3.3.1) and drops datagrams of other senders.

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
use crate::egress::batch::Batch;
use crate::egress::{BATCH, is_full};
use crate::policy::{Followed, Policy, Refusal, Trust};
use crate::receive::inbox::Inbox;
use poll::Poll;
pub use server::Server;
use server::ServerState;
use tcp::{Progress, Tcp};
use udp::Udp;

/// Sockets in use at a time per server.
pub const SOCKETS: usize = 8;
/// After this many questions a socket is replaced.
pub const QUESTIONS: u32 = 100;
/// Most batches read from a socket before the next one.
const READS: usize = 16;

/// What came of a socket.
pub enum Event<'a> {
    /// A datagram from the socket's server, and when it arrived.
    Datagram {
        socket: u32,
        bytes: &'a [u8],
        at: Mono,
    },
    /// A whole message over TCP, without its length.
    Message {
        socket: u32,
        bytes: &'a [u8],
        at: Mono,
    },
    /// The socket reports an error (ICMP, a connection that is refused or closed); the engine closes it.
    Failed { socket: u32, error: io::Error },
}

/// Why a question could not leave.
#[derive(Debug)]
pub enum Unsent {
    Refused(Refusal),
    System(io::Error),
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Handed {
    /// So many datagrams left.
    pub left: usize,
    /// An error of datagrams that had left before, which the kernel reports to the next sender.
    pub earlier: Option<io::Error>,
    /// Why the others did not leave.
    pub refused: Option<io::Error>,
}

/// What left, for the summary.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sent {
    pub datagrams: u64,
    /// TCP connections that were begun.
    pub connections: u64,
    /// UDP sockets that were opened, each with another source port.
    pub sockets: u64,
    /// Datagrams that came to a socket from another address than its server's.
    pub from_elsewhere: u64,
}

enum Slot {
    Free,
    Udp(Udp),
    Tcp(Box<Tcp>),
}

/// The sockets of a run, and the only place where they are used.
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
    /// Up to when everything that came is read.
    drained: Mono,
}

impl Connected {
    /// Opens no socket yet. Fails if the policy forbids a server; `random` chooses sockets.
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

    /// Returns how many questions may leave to a server now, at most a batch; none while the opt-out list is
    /// not confirmed.
    pub fn allow(&mut self, server: usize, now: Mono) -> usize {
        if self.policy.look(now) < Trust::All {
            return 0;
        }
        self.servers[server].allow(now).min(BATCH as u64) as usize
    }

    /// Returns when the next question may leave to a server, at the earliest.
    pub fn next_at(&self, server: usize) -> Mono {
        let held = self.policy.wait_for(Trust::All);
        self.servers[server].next_at().max(held)
    }

    /// Returns whether nothing may be asked, because the opt-out list is not confirmed.
    pub fn is_held(&self) -> bool {
        self.policy.trust() < Trust::All
    }

    /// Returns what the summary says of the lists.
    pub fn followed(&self) -> Followed {
        self.policy.followed()
    }

    /// Returns what has left.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Returns the most questions that left to a server in any second; `None` if its rate is not limited.
    pub fn highest(&self, server: usize) -> Option<u64> {
        self.servers[server].highest()
    }

    /// Chooses the socket for the next batch to a server, and opens one where there is none.
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
            // No more descriptors: better a port that others know than no question.
            Err(_) if !self.servers[server].current.is_empty() => {
                Ok(self.servers[server].current[0])
            }
            Err(error) => Err(Unsent::System(error)),
        }
    }

    /// Adds a question, which `fill` writes, to the batch of `socket`. At most as many as [`Self::allow`]
    /// returned.
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

    /// Sends the batch from `socket` and empties it. A first refusal may be about earlier datagrams, so the batch
    /// is offered once more.
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

    /// Begins a TCP connection to a server for one question (RFC 7766 5: a length of 16 bits goes before it).
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

    /// Notes that a question of this socket is over, answered or not.
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

    /// Closes a socket at once.
    pub fn close(&mut self, socket: u32) {
        let Some(slot) = self.slots.get_mut(socket as usize) else {
            return;
        };
        // Dropping the descriptor takes it out of the epoll set, too.
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

    /// Reads all sockets that have something, and calls `each` with it. Returns the time up to which
    /// everything that came is read.
    pub fn read(&mut self, mut each: impl FnMut(Event<'_>)) -> Mono {
        let (now, wall_now) = (self.clock.now(), wall());
        let (ready, mut drained) = self.poll.ready();
        for socket in ready {
            match self.slots.get_mut(socket as usize) {
                Some(Slot::Udp(udp)) => {
                    let (elsewhere, empty) =
                        udp.read(&mut self.inbox, READS, |datagram| match datagram {
                            Ok((bytes, stamp)) => {
                                // How long ago, by the kernel's stamp; a clock that is set meanwhile is no
                                // measure.
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

    /// Sleeps until something comes, at most `longest`.
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

/// What a server that may not be contacted leads to.
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

/// Returns whether a datagram of `peer` came from a server; the zone of a link-local address is not compared.
fn is_server(server: SocketAddr, peer: SocketAddr) -> bool {
    (server.ip(), server.port()) == (peer.ip(), peer.port())
}

#[cfg(test)]
mod tests;
