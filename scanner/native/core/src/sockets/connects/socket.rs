//! A TCP connection that never blocks.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use super::agreed::{Info, LENGTH};
use super::{Ecn, Origin, Verdict, ecn};

/// Most SYNs per connection.
pub const SYNS: u32 = 4;

/// States of a connection that is open for the kernel (TCP_ESTABLISHED, TCP_CLOSE_WAIT).
const OPEN: [u8; 2] = [1, 8];

/// A started connection.
pub struct Connecting {
    socket: OwnedFd,
    failed: Option<Errno>,
    /// A filter drops SYN-ACKs on which the kernel and RFC 3168 differ (see `ecn`).
    filters: bool,
}

impl Connecting {
    /// Starts to connect. `turn` selects the source and the port. With [`Ecn::Asked`], the socket has a
    /// filter for SYN-ACKs. Fails if nothing was sent.
    pub fn open(to: SocketAddr, from: &Origin, turn: usize, ecn: Ecn) -> io::Result<Connecting> {
        let (family, wanted) = if to.is_ipv4() {
            (AddressFamily::INET, true)
        } else {
            (AddressFamily::INET6, false)
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        let now = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        set(&socket, libc::SOL_SOCKET, libc::SO_LINGER, &now)?;
        set(&socket, libc::IPPROTO_TCP, libc::TCP_SYNCNT, &(SYNS - 1))?;
        let filters = ecn == Ecn::Asked;
        if filters {
            ecn::drop_what_differs(&socket)?;
        }
        let sources = from.sources.iter().filter(|ip| ip.is_ipv4() == wanted);
        let count = sources.clone().count().max(1);
        let source = sources.clone().nth(turn % count).copied();
        let port = from.ports.map(|(first, last)| {
            let span = usize::from(last.saturating_sub(first)) + 1;
            first + (turn / count % span) as u16
        });
        if source.is_some() || port.is_some() {
            // Many connections share a port: several sockets may bind it, or the system chooses it once the
            // destination is known.
            if port.is_some() {
                set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1)?;
            } else {
                set(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1)?;
            }
            let any = if wanted {
                IpAddr::V4(Ipv4Addr::UNSPECIFIED)
            } else {
                IpAddr::V6(Ipv6Addr::UNSPECIFIED)
            };
            let local = SocketAddr::new(source.unwrap_or(any), port.unwrap_or(0));
            net::bind(&socket, &local)?;
        }
        let mut connecting = Connecting {
            socket,
            failed: None,
            filters,
        };
        match net::connect(&connecting.socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            // A nearby host may answer before the call returns.
            Err(error) if connecting.info()?.has_sent() => connecting.failed = Some(error),
            Err(error) => return Err(error.into()),
        }
        Ok(connecting)
    }

    /// Returns whether the connection has already ended.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Returns the local address and port.
    pub fn local(&self) -> Option<SocketAddr> {
        net::getsockname(&self.socket).ok()?.try_into().ok()
    }

    /// Returns whether a SYN-ACK arrived that does not agree to ECN and that the filter hid from the kernel.
    pub fn has_dropped(&self) -> bool {
        // A segment that passed the filter counts as received, even if the kernel drops it later (a reset
        // without ACK).
        let received = self.info().map_or(u32::MAX, |info| info.received());
        self.filters && ecn::dropped(&self.socket) > received
    }

    /// Returns how the connection ended; `None`: it has not ended yet.
    pub fn verdict(&mut self) -> Option<Verdict> {
        match self.outcome() {
            Some(Verdict::Failed(_)) if self.has_dropped() => Some(Verdict::NotEcn),
            outcome => outcome,
        }
    }

    fn outcome(&mut self) -> Option<Verdict> {
        let failed = |error: Errno| Some(Verdict::Failed(error.into()));
        if let Some(error) = self.failed {
            return failed(error);
        }
        let error = match net::sockopt::socket_error(&self.socket) {
            Ok(result) => result.err(),
            Err(error) => Some(error),
        };
        match (error, self.info()) {
            // An open connection was reset. A refused connection has another error.
            (Some(Errno::CONNRESET | Errno::PIPE), Ok(info)) => Some(Verdict::Open(info.agreed())),
            (Some(error), _) => failed(error),
            (None, Ok(info)) if OPEN.contains(&info.state()) => Some(Verdict::Open(info.agreed())),
            (None, Ok(_)) => None,
            (None, Err(error)) => Some(Verdict::Failed(error)),
        }
    }

    fn info(&self) -> io::Result<Info> {
        let mut info = Info([0; LENGTH]);
        let mut length = LENGTH as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, which `info` has.
        let status = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info.0).cast(),
                &raw mut length,
            )
        };
        match status {
            0 if length as usize == LENGTH => Ok(info),
            0 => Err(io::ErrorKind::Unsupported.into()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sets an option with a value of plain integers.
fn set<T>(socket: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` has the size that is passed, and the call only reads it.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
