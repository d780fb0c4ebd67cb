//! One UDP socket per address, and the loop that reads them and wakes a host in time.
//!
//! Each address has a separate socket. Several servers can then share a lab host, and replies leave from the
//! requested address. An address without a server answers "port unreachable", which is a measured outcome.

use crate::Config;
use crate::buffers;
use crate::launch::Launch;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use std::cell::Cell;
use std::convert::Infallible;
use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Length of all datagrams in a buffer except the last: the minimum that a QUIC path must support (RFC 9000, 14).
pub const DATAGRAM_BYTES: usize = 1200;
/// The loop sleeps until this long before an instant and then spins, because the kernel wakes a thread some tens of
/// microseconds late.
const SPIN: Duration = Duration::from_micros(60);
/// Maximum number of datagrams read from one socket before the loop checks the other sockets and the releases.
const BURST: usize = 16;
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// A received datagram and the local address that it was sent to.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// When the program read it.
    pub at: Instant,
}

/// A server program: handles datagrams and is woken at chosen instants.
pub trait Host {
    /// `bytes` may be changed in place (to remove packet protection).
    fn arrived(&mut self, sockets: &Sockets, arrival: Arrival, bytes: &mut [u8]);
    /// Returns the next instant at which `due` must be called.
    fn next_due(&mut self) -> Option<Instant>;
    /// Does the work due at `now`.
    fn due(&mut self, sockets: &Sockets, now: Instant);
}

#[derive(Debug)]
pub enum ServeError {
    Clock(String),
    Bind {
        address: SocketAddr,
        error: io::Error,
    },
    Wait(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock(problem) => write!(f, "{problem}"),
            Self::Bind { address, error } => write!(f, "cannot listen on UDP {address}: {error}"),
            Self::Wait(error) => write!(f, "cannot wait for datagrams: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

/// The bound sockets, found by local address.
#[derive(Debug)]
pub struct Sockets {
    list: Vec<Bound>,
    by_address: std::collections::HashMap<SocketAddr, usize>,
    epoll: OwnedFd,
    launch: Option<Launch>,
}

#[derive(Debug)]
struct Bound {
    address: SocketAddr,
    socket: UdpSocket,
    /// The current pacing rate of the socket, set by `Sockets::send_buffer`.
    rate: Cell<Option<u64>>,
}

impl Sockets {
    fn bind(config: &Config) -> Result<Self, ServeError> {
        let wait = |error: rustix::io::Errno| ServeError::Wait(error.into());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(wait)?;
        let clock = config.transport.launch_clock.as_deref();
        let launch = clock
            .map(Launch::new)
            .transpose()
            .map_err(ServeError::Clock)?;
        let mut list = Vec::with_capacity(config.listen.len());
        let mut by_address = std::collections::HashMap::new();
        for &ip in &config.listen {
            let address = SocketAddr::new(ip, config.port);
            let bound = UdpSocket::bind(address).and_then(|socket| {
                socket.set_nonblocking(true)?;
                // The kernel caps this at its limit without an error.
                rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES)?;
                if let Some(launch) = launch {
                    launch.prepare(&socket)?;
                }
                if config.transport.gso {
                    buffers::divide(&socket, DATAGRAM_BYTES as u16)?;
                }
                Ok(socket)
            });
            let socket = bound.map_err(|error| ServeError::Bind { address, error })?;
            let data = epoll::EventData::new_u64(list.len() as u64);
            epoll::add(&epoll, &socket, data, epoll::EventFlags::IN).map_err(wait)?;
            by_address.insert(address, list.len());
            let rate = Cell::new(None);
            list.push(Bound {
                address,
                socket,
                rate,
            });
        }
        Ok(Self {
            list,
            by_address,
            epoll,
            launch,
        })
    }

    /// Sends one datagram from `local`; returns whether the kernel accepted it. A full buffer, or an ICMP error of
    /// an earlier datagram, must not stop a server, because UDP is lossy.
    pub fn send(&self, local: SocketAddr, peer: SocketAddr, bytes: &[u8]) -> bool {
        self.send_at(local, peer, bytes, None)
    }

    /// Like `send`, but with the launch time `at` (default: now) if the configuration enables launch times.
    pub fn send_at(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        bytes: &[u8],
        at: Option<Instant>,
    ) -> bool {
        let Some(bound) = self.find(local) else {
            return false;
        };
        let socket = &bound.socket;
        // A pending ICMP error is reported once, instead of sending.
        (0..2).any(|_| match self.launch {
            Some(launch) => {
                let at = at.unwrap_or_else(Instant::now);
                launch.send(socket, peer, bytes, at).is_ok()
            }
            None => socket.send_to(bytes, peer).is_ok(),
        })
    }

    /// Like `send_at`, for several datagrams in a buffer, if the configuration enables `gso`. Each has
    /// DATAGRAM_BYTES; the last may be shorter. They follow each other at `rate` in payload bytes per second, or
    /// without gaps.
    pub fn send_buffer(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        bytes: &[u8],
        at: Option<Instant>,
        rate: Option<u64>,
    ) -> bool {
        let Some(bound) = self.find(local) else {
            return false;
        };
        if bound.rate.get() != rate {
            if buffers::pace(&bound.socket, rate).is_err() {
                return false;
            }
            bound.rate.set(rate);
        }
        self.send_at(local, peer, bytes, at)
    }

    /// Returns the earliest possible launch time for a datagram that is sent now.
    pub fn earliest(&self) -> Instant {
        Instant::now() + self.launch.map_or(Duration::ZERO, Launch::lead)
    }

    fn find(&self, local: SocketAddr) -> Option<&Bound> {
        self.list.get(*self.by_address.get(&local)?)
    }
}

/// Binds every address, prints `READY`, and serves forever.
pub fn serve<H: Host>(config: &Config, mut host: H) -> Result<Infallible, ServeError> {
    let sockets = Sockets::bind(config)?;
    // Wake within a microsecond instead of the default 50. A failure costs only precision, which the spin
    // compensates.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    println!("READY");
    // A missing reader of standard output is no reason to stop.
    let _ = io::stdout().flush();

    let mut events = Vec::with_capacity(64);
    let mut buffer = vec![0_u8; 65_536];
    loop {
        let now = Instant::now();
        host.due(&sockets, now);
        let timeout = host.next_due().map(|at| {
            let sleep = at
                .saturating_duration_since(Instant::now())
                .saturating_sub(SPIN);
            Timespec {
                tv_sec: sleep.as_secs() as i64,
                tv_nsec: i64::from(sleep.subsec_nanos()),
            }
        });
        events.clear();
        match epoll::wait(
            &sockets.epoll,
            rustix::buffer::spare_capacity(&mut events),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ServeError::Wait(error.into())),
        }
        for event in &events {
            let Some(bound) = sockets.list.get(event.data.u64() as usize) else {
                continue;
            };
            for _ in 0..BURST {
                match bound.socket.recv_from(&mut buffer) {
                    Ok((length, peer)) => {
                        let arrival = Arrival {
                            local: bound.address,
                            peer,
                            at: Instant::now(),
                        };
                        host.arrived(&sockets, arrival, &mut buffer[..length]);
                        host.due(&sockets, Instant::now());
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // An ICMP error of an earlier datagram. Continue to read.
                    Err(_) => {}
                }
            }
        }
    }
}
