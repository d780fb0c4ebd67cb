//! UDP sockets with kernel stamps, ICMP errors, TTL and do-not-fragment.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::sockets::messages::{self, Inbox};

/// Reports of the kernel: software stamps; transmit stamps are numbered and do not include the packet.
const REPORT: u32 = libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// Requested receive buffer, for thousands of datagrams and stamps.
const RECEIVE_BUFFER: i32 = 8 << 20;

/// Longest wait for the kernel's receive stamps, and time between two checks.
const STAMPING_WAIT: Duration = Duration::from_secs(1);
const STAMPING_LOOK: Duration = Duration::from_millis(1);
/// Number of successive checks that must find a stamp. After a single check, the kernel may still be about to
/// stop, because another program closed the last socket with stamps.
const STAMPING_LOOKS: u32 = 2;

/// A bound port.
pub struct Port {
    socket: UdpSocket,
    pub local: SocketAddr,
}

pub fn set(socket: &impl AsRawFd, level: i32, option: i32, value: u32) -> io::Result<()> {
    let length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the option value is an integer of the length given.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

impl Port {
    /// Binds `port` of `source` (unspecified: any of the host's addresses).
    pub fn bind(source: IpAddr, port: u16) -> io::Result<Port> {
        // An IPv6 socket of the standard library also accepts IPv4 traffic, which would bypass the lists.
        let socket = UdpSocket::from(open(source.is_ipv6())?);
        bind(&socket, SocketAddr::new(source, port))?;
        socket.set_nonblocking(true)?;
        // A size above rmem_max needs CAP_NET_ADMIN. Without it, the kernel grants as much as it may.
        if set(
            &socket,
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            RECEIVE_BUFFER as u32,
        )
        .is_err()
        {
            set(
                &socket,
                libc::SOL_SOCKET,
                libc::SO_RCVBUF,
                RECEIVE_BUFFER as u32,
            )?;
        }
        if source.is_ipv4() {
            for option in [libc::IP_RECVERR, libc::IP_RECVTTL, libc::IP_PKTINFO] {
                set(&socket, libc::IPPROTO_IP, option, 1)?;
            }
            set(
                &socket,
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                libc::IP_PMTUDISC_DO as u32,
            )?;
        } else {
            for option in [
                libc::IPV6_RECVERR,
                libc::IPV6_RECVHOPLIMIT,
                libc::IPV6_RECVPKTINFO,
                libc::IPV6_DONTFRAG,
            ] {
                set(&socket, libc::IPPROTO_IPV6, option, 1)?;
            }
            set(
                &socket,
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_PMTUDISC_DO as u32,
            )?;
        }
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, REPORT)?;
        let local = socket.local_addr()?;
        Ok(Port { socket, local })
    }

    /// Marks sent datagrams with an ECN field (RFC 3168 5: 1 is ECT(1), 2 is ECT(0)), and reports the ECN
    /// field of received datagrams.
    pub fn mark(&self, ecn: u8) -> io::Result<()> {
        let (level, report, field) = if self.local.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_RECVTOS, libc::IP_TOS)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, libc::IPV6_TCLASS)
        };
        set(&self.socket, level, report, 1)?;
        set(&self.socket, level, field, u32::from(ecn))
    }

    /// Restarts the numbers of transmit stamps at 0. This is needed after a failed send: kernels differ in
    /// whether a failed datagram has a number.
    pub fn restart_stamps(&self) -> io::Result<()> {
        set(
            &self.socket,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            REPORT & !libc::SOF_TIMESTAMPING_OPT_ID,
        )?;
        set(
            &self.socket,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            REPORT,
        )
    }
}

/// Waits until the kernel stamps arriving datagrams, at most a second. The first socket on the machine that
/// requests stamps enables them (net_enable_timestamp), but only later, by a work item. Datagrams that arrive
/// before have no stamp. To test this, the function sends a byte to itself on loopback. Without a loopback
/// address it sends no byte and does not wait. Stamps stay enabled while a port is open.
pub fn await_stamps() {
    let (begin, mut inbox, mut found) = (Instant::now(), Inbox::new(), 0);
    while begin.elapsed() < STAMPING_WAIT {
        match is_stamped(&mut inbox) {
            Ok(true) => found += 1,
            Ok(false) => found = 0,
            Err(_) => return,
        }
        if found == STAMPING_LOOKS {
            return;
        }
        std::thread::sleep(STAMPING_LOOK);
    }
}

/// Sends a byte from a new socket to itself. Returns whether it arrived with a receive stamp.
fn is_stamped(inbox: &mut Inbox) -> io::Result<bool> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, REPORT)?;
    socket.send_to(&[0], socket.local_addr()?)?;
    let mut stamped = false;
    inbox.receive(socket.as_fd(), false, |got| {
        stamped |= got.control.stamp.is_some();
    })?;
    Ok(stamped)
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open(v6: bool) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave this descriptor to us.
    let fd = unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) };
    if v6 {
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    Ok(fd)
}

fn bind(socket: &UdpSocket, address: SocketAddr) -> io::Result<()> {
    let mut place = messages::empty_address();
    let length = messages::write_address(&mut place, address);
    // SAFETY: `place` contains an address of `length` bytes.
    let status = unsafe { libc::bind(socket.as_raw_fd(), (&raw const place).cast(), length) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Finds the source address that the kernel would choose for a destination.
pub struct Routes {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl Routes {
    /// Sends nothing: connecting a datagram socket only looks up the route.
    pub fn new() -> Self {
        Routes {
            v4: UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok(),
            v6: UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok(),
        }
    }

    /// Returns the source address towards `to`; `None` if there is no route.
    pub fn source(&self, to: SocketAddr) -> Option<IpAddr> {
        let socket = if to.is_ipv4() {
            self.v4.as_ref()?
        } else {
            self.v6.as_ref()?
        };
        disconnect(socket);
        socket.connect(to).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    }
}

/// Removes a socket's last destination and the source address chosen for it (connect(2), AF_UNSPEC).
fn disconnect(socket: &UdpSocket) {
    let nowhere = messages::empty_address();
    let length = size_of_val(&nowhere) as libc::socklen_t;
    // SAFETY: `nowhere` is an address of `length` bytes. A failure leaves the socket as it was.
    unsafe { libc::connect(socket.as_raw_fd(), (&raw const nowhere).cast(), length) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_looked_up_every_time() {
        let routes = Routes::new();
        let source = |ip: &str| routes.source(SocketAddr::new(ip.parse().unwrap(), 443));
        assert_eq!(source("127.5.6.7"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(source("::1"), Some(Ipv6Addr::LOCALHOST.into()));
    }
}
