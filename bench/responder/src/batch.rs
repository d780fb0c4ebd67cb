//! Batches for recvmmsg(2) and sendmmsg(2) on one socket that serves many addresses: an answer leaves from the address
//! that its message was sent to (IP_PKTINFO).

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

/// Messages per call.
pub const BATCH: usize = 64;
const ROOM: usize = 2048;

/// struct cmsghdr and struct in_pktinfo, with a control buffer's layout.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct PacketInfo {
    length: usize,
    level: i32,
    kind: i32,
    info: libc::in_pktinfo,
}

const PACKET_INFO: usize = 16 + size_of::<libc::in_pktinfo>();

/// A message's source and destination.
#[derive(Clone, Copy)]
pub struct Route {
    peer: libc::sockaddr_in,
    info: PacketInfo,
}

impl Route {
    /// Returns the address that the message was received from.
    pub fn peer(&self) -> SocketAddrV4 {
        let address = Ipv4Addr::from_bits(u32::from_be(self.peer.sin_addr.s_addr));
        SocketAddrV4::new(address, u16::from_be(self.peer.sin_port))
    }

    /// Returns the address that the message was sent to.
    pub fn local(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::from_be(self.info.info.ipi_addr.s_addr))
    }
}

/// Messages with their source and destination addresses.
pub struct Batch {
    bytes: Vec<[u8; ROOM]>,
    routes: Vec<Route>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Batch {
    /// Allocates `count` messages.
    pub fn new(count: usize) -> Self {
        // SAFETY: all of these are integers and pointers, for which zero is a value.
        let (route, header): (Route, libc::mmsghdr) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut batch = Batch {
            bytes: vec![[0; ROOM]; count],
            routes: vec![route; count],
            vectors: vec![
                libc::iovec {
                    iov_base: std::ptr::null_mut(),
                    iov_len: 0
                };
                count
            ],
            headers: vec![header; count],
        };
        for i in 0..count {
            batch.vectors[i] = libc::iovec {
                iov_base: batch.bytes[i].as_mut_ptr().cast(),
                iov_len: ROOM,
            };
            let header = &mut batch.headers[i].msg_hdr;
            header.msg_name = (&raw mut batch.routes[i].peer).cast();
            header.msg_iov = &raw mut batch.vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut batch.routes[i].info).cast();
        }
        batch
    }

    /// Receives the pending messages and returns their number, or `WouldBlock` if there are none.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        for header in &mut self.headers {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
            header.msg_hdr.msg_controllen = size_of::<PacketInfo>();
        }
        let (headers, count) = (self.headers.as_mut_ptr(), self.headers.len() as u32);
        // SAFETY: the headers point into this value's vectors, which keep their addresses and the given lengths.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers,
                count,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if n < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(n as usize)
        }
    }

    /// Returns message number `i` and the route.
    pub fn get(&self, i: usize) -> (&[u8], Route) {
        (
            &self.bytes[i][..(self.headers[i].msg_len as usize).min(ROOM)],
            self.routes[i],
        )
    }

    /// Stores message number `i`, to be sent back along `route`.
    pub fn put(&mut self, i: usize, message: &[u8], route: &Route) {
        self.bytes[i][..message.len()].copy_from_slice(message);
        self.vectors[i].iov_len = message.len();
        self.routes[i] = *route;
        let info = &mut self.routes[i].info;
        info.info.ipi_ifindex = 0;
        info.info.ipi_spec_dst = info.info.ipi_addr;
        let header = &mut self.headers[i].msg_hdr;
        header.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
        header.msg_controllen = PACKET_INFO.next_multiple_of(8);
    }

    /// Sends the first `count` messages. Skips messages that cannot be sent.
    pub fn send(&mut self, socket: &UdpSocket, count: usize) -> io::Result<()> {
        let mut from = 0;
        while from < count {
            let (headers, left) = (&raw mut self.headers[from], (count - from) as u32);
            // SAFETY: as in `receive`; `left` headers follow `from`.
            let n = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, left, 0) };
            if n > 0 {
                from += n as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::ConnectionRefused => from += 1,
                _ => return Err(error),
            }
        }
        Ok(())
    }
}

fn set(socket: &UdpSocket, level: i32, option: i32, value: i32) -> io::Result<()> {
    let length = size_of::<i32>() as u32;
    // SAFETY: the value is an integer of the length given.
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

/// Opens a socket for `listen` that reports the destination address of each message.
pub fn open(listen: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(listen)?;
    set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    for (force, plain) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        if set(&socket, libc::SOL_SOCKET, force, 64 << 20).is_err() {
            set(&socket, libc::SOL_SOCKET, plain, 8 << 20)?;
        }
    }
    Ok(socket)
}
