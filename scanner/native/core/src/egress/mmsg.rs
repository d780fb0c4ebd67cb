//! Batches of datagrams for sendmmsg(2) and recvmmsg(2). The buffers stay; nothing is allocated per datagram.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::receive::cmsg::Control;

/// Datagrams per call.
pub const BATCH: usize = 64;
/// Room for a datagram to be sent, for what the error queue quotes, and for the start of a datagram that comes: nearly
/// always all of it, so that a batch stays in the cache.
const ROOM: usize = 2048;
/// Room for the rest of one that comes: no UDP datagram is larger than 64 KiB (RFC 768: a length of 16 bits).
const REST: usize = (1 << 16) - ROOM;
const CONTROL: usize = 256;

/// Per-message request for a transmit stamp (SO_TIMESTAMPING as control message): one u32.
const STAMP_REQUEST: usize = 24;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct ControlBytes([u8; CONTROL]);

#[repr(C)]
struct Frame {
    name: libc::sockaddr_in6,
    control: ControlBytes,
}

/// A message's place: address, control bytes, payload.
struct Buffers {
    frames: Box<[Frame]>,
    /// Payloads, [`ROOM`] bytes each.
    bytes: Box<[u8]>,
    /// What goes beyond, `rest` bytes each. Zeroed by the system: memory that no datagram reached is never touched.
    beyond: Box<[u8]>,
    /// One vector per place, or two if there is a rest.
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers in `vectors` and `headers` lead into `frames`, `bytes`, `beyond` and `vectors` of the same value,
// whose boxes move with it; nobody else has them.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Buffers for payloads of at most [`ROOM`] and `rest` bytes.
    fn new(rest: usize) -> Self {
        let frame = || Frame {
            name: empty_address(),
            control: ControlBytes([0; CONTROL]),
        };
        let mut frames: Box<[Frame]> = (0..BATCH).map(|_| frame()).collect();
        let mut bytes = vec![0; BATCH * ROOM].into_boxed_slice();
        let mut beyond = vec![0; BATCH * rest].into_boxed_slice();
        let vector = |part: &mut [u8]| libc::iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        };
        let mut rests = beyond.chunks_mut(rest.max(1));
        let mut vectors: Box<[libc::iovec]> = bytes
            .chunks_exact_mut(ROOM)
            .flat_map(|start| [Some(vector(start)), rests.next().map(vector)])
            .flatten()
            .collect();
        let per_place = vectors.len() / BATCH;
        let headers = frames
            .iter_mut()
            .zip(vectors.chunks_exact_mut(per_place))
            .map(|(frame, parts)| {
                // SAFETY: mmsghdr is integers and pointers, for which zero is a value.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_name = (&raw mut frame.name).cast();
                header.msg_hdr.msg_iov = parts.as_mut_ptr();
                header.msg_hdr.msg_iovlen = parts.len();
                header.msg_hdr.msg_control = frame.control.0.as_mut_ptr().cast();
                header
            })
            .collect();
        Buffers {
            frames,
            bytes,
            beyond,
            vectors,
            headers,
        }
    }
}

/// Datagrams to be sent.
pub struct Outbox {
    buffers: Buffers,
    len: usize,
}

impl Outbox {
    /// An empty batch.
    pub fn new() -> Self {
        let mut buffers = Buffers::new(0);
        for frame in &mut buffers.frames {
            let request = &mut frame.control.0;
            request[..8].copy_from_slice(&20u64.to_ne_bytes());
            request[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
            request[12..16].copy_from_slice(&libc::SO_TIMESTAMPING.to_ne_bytes());
            request[16..20].copy_from_slice(&libc::SOF_TIMESTAMPING_TX_SOFTWARE.to_ne_bytes());
        }
        Outbox { buffers, len: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.len == BATCH
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a datagram to `to` that `fill` writes; `stamp` asks for a transmit stamp. The batch must not be full.
    pub fn push<E>(
        &mut self,
        to: SocketAddr,
        stamp: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let frame = &mut self.buffers.frames[self.len];
        let payload = &mut self.buffers.bytes[self.len * ROOM..][..ROOM];
        self.buffers.vectors[self.len].iov_len = fill(payload)?;
        let header = &mut self.buffers.headers[self.len].msg_hdr;
        header.msg_namelen = write_address(&mut frame.name, to);
        header.msg_controllen = if stamp { STAMP_REQUEST } else { 0 };
        self.len += 1;
        Ok(())
    }

    /// Hands the datagrams from number `from` on to the kernel; says how many it took, or why it did not take the first.
    pub fn send(&mut self, socket: BorrowedFd<'_>, from: usize) -> io::Result<usize> {
        let headers = &mut self.buffers.headers[from..self.len];
        // SAFETY: the headers point to name, control bytes and payload of their own frames, of the lengths set in `push`.
        let n = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as u32,
                0,
            )
        };
        if n < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(n as usize)
        }
    }
}

/// Datagrams that came.
pub struct Inbox {
    buffers: Buffers,
}

/// One of them.
pub struct Received<'a> {
    /// Sender; in the error queue the destination of what caused the error.
    pub peer: Option<SocketAddr>,
    pub control: Control,
    pub bytes: &'a mut [u8],
}

impl Inbox {
    /// Room for a batch of datagrams of any size.
    pub fn new() -> Self {
        Inbox {
            buffers: Buffers::new(REST),
        }
    }

    /// Room for a batch from the error queue, which quotes what we sent.
    pub fn of_errors() -> Self {
        Inbox {
            buffers: Buffers::new(0),
        }
    }

    /// Reads what is there, at most a batch, without waiting; `errors`: from the error queue. Calls `each` and says how
    /// many there were.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        errors: bool,
        mut each: impl FnMut(Received<'_>),
    ) -> io::Result<usize> {
        for header in &mut self.buffers.headers {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in6>() as u32;
            header.msg_hdr.msg_controllen = CONTROL;
        }
        let flags = libc::MSG_DONTWAIT | if errors { libc::MSG_ERRQUEUE } else { 0 };
        // SAFETY: the headers point to name, control bytes and payload of their own frames, of the lengths set here and
        // in `Buffers::new`.
        let n = unsafe {
            let headers = self.buffers.headers.as_mut_ptr();
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers,
                BATCH as u32,
                flags,
                std::ptr::null_mut(),
            )
        };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock {
                Ok(0)
            } else {
                Err(error)
            };
        }
        let payloads = self.buffers.bytes.chunks_exact_mut(ROOM);
        for (place, ((frame, start), header)) in self
            .buffers
            .frames
            .iter()
            .zip(payloads)
            .zip(&self.buffers.headers)
            .take(n as usize)
            .enumerate()
        {
            let length = header.msg_len as usize;
            let mut whole = Vec::new();
            let bytes = if length <= ROOM {
                &mut start[..length]
            } else {
                whole.extend_from_slice(start);
                whole.extend_from_slice(&self.buffers.beyond[place * REST..][..length - ROOM]);
                &mut whole
            };
            let peer = if header.msg_hdr.msg_namelen == 0 {
                None
            } else {
                read_address(&frame.name)
            };
            each(Received {
                peer,
                control: Control::parse(
                    &frame.control.0[..header.msg_hdr.msg_controllen.min(CONTROL)],
                ),
                bytes,
            });
        }
        Ok(n as usize)
    }
}

/// Room for an address.
pub fn empty_address() -> libc::sockaddr_in6 {
    // SAFETY: sockaddr_in6 is plain integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Writes `address` where the kernel reads it; gives its length. An IPv4 address is written in the first 16 bytes.
pub fn write_address(place: &mut libc::sockaddr_in6, address: SocketAddr) -> libc::socklen_t {
    match address {
        SocketAddr::V4(v4) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: both are plain integers, sockaddr_in is the smaller one and needs no stricter alignment.
            unsafe { (&raw mut *place).cast::<libc::sockaddr_in>().write(v4) };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(v6) => {
            *place = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}

fn read_address(place: &libc::sockaddr_in6) -> Option<SocketAddr> {
    match i32::from(place.sin6_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote a sockaddr_in (16 bytes) here; it is plain integers.
            let v4 = unsafe { (&raw const *place).cast::<libc::sockaddr_in>().read() };
            let ip = v4.sin_addr.s_addr.to_ne_bytes().into();
            Some(SocketAddr::V4(SocketAddrV4::new(
                ip,
                u16::from_be(v4.sin_port),
            )))
        }
        libc::AF_INET6 => {
            let ip = place.sin6_addr.s6_addr.into();
            Some(SocketAddr::V6(SocketAddrV6::new(
                ip,
                u16::from_be(place.sin6_port),
                0,
                0,
            )))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    fn round_trip(address: &str) {
        let (a, b) = (
            UdpSocket::bind(address).unwrap(),
            UdpSocket::bind(address).unwrap(),
        );
        let to = b.local_addr().unwrap();
        let mut out = Outbox::new();
        for i in 0..3u8 {
            out.push::<()>(to, false, |bytes| {
                bytes[..4].fill(i);
                Ok(4)
            })
            .unwrap();
        }
        assert_eq!(out.send(a.as_fd(), 1).unwrap(), 2);
        let mut got = Vec::new();
        let mut inbox = Inbox::new();
        let n = inbox
            .receive(b.as_fd(), false, |r| got.push((r.peer, r.bytes.to_vec())))
            .unwrap();
        let from = Some(a.local_addr().unwrap());
        assert_eq!((n, got), (2, vec![(from, vec![1; 4]), (from, vec![2; 4])]));
        assert_eq!(inbox.receive(b.as_fd(), false, |_| ()).unwrap(), 0);
    }

    #[test]
    fn the_largest_datagrams_come_whole() {
        for (address, size) in [("127.0.0.1:0", 65_507), ("[::1]:0", 65_527)] {
            let (a, b) = (
                UdpSocket::bind(address).unwrap(),
                UdpSocket::bind(address).unwrap(),
            );
            let sent: Vec<u8> = (0..size).map(|i| (i / 7) as u8).collect();
            let mut got = Vec::new();
            let mut inbox = Inbox::new();
            // In the second place as well as in the first.
            for datagram in [&sent[..9], &sent] {
                a.send_to(datagram, b.local_addr().unwrap()).unwrap();
            }
            inbox
                .receive(b.as_fd(), false, |r| got.push(r.bytes.to_vec()))
                .unwrap();
            assert!(got == [sent[..9].to_vec(), sent], "{address}");
        }
    }

    #[test]
    fn addresses_of_both_families_survive() {
        round_trip("127.0.0.1:0");
        round_trip("[::1]:0");
    }
}
