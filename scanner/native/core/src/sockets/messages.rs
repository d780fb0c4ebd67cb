//! Buffers for batches of messages, in the form of sendmmsg(2) and recvmmsg(2). The buffers are reused, so
//! that a datagram needs no allocation.

mod batch;
mod cmsg;
mod inbox;

pub use batch::Batch;
pub use cmsg::{Control, ExtendedError};
pub use inbox::Inbox;

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

/// Datagrams per call.
pub const BATCH: usize = 64;
/// Room for a datagram to send, for the quote in the error queue, and for the start of a received datagram.
/// Nearly every received datagram fits into it, so that a batch stays in the cache.
pub const ROOM: usize = 2048;
/// Room for the rest of a received datagram. A UDP datagram is at most 64 KiB long (RFC 768: a length of 16
/// bits).
pub const REST: usize = (1 << 16) - ROOM;
pub const CONTROL: usize = 256;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct ControlBytes(pub [u8; CONTROL]);

#[repr(C)]
pub struct Frame {
    pub name: libc::sockaddr_in6,
    pub control: ControlBytes,
}

/// For each message in a batch: address, control bytes, payload.
pub struct Buffers {
    pub frames: Box<[Frame]>,
    /// Payloads, [`ROOM`] bytes each.
    pub bytes: Box<[u8]>,
    /// The rest of each payload, `rest` bytes each. The system zeroes this memory on first use: memory that
    /// no datagram reaches is never touched.
    pub beyond: Box<[u8]>,
    /// One vector per message, or two if there is a rest.
    pub vectors: Box<[libc::iovec]>,
    pub headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers in `vectors` and `headers` point into `frames`, `bytes`, `beyond` and `vectors` of the
// same value. Moving the value does not move the contents of these boxes, and no other value points there.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Creates buffers for payloads of at most [`ROOM`] and `rest` bytes.
    pub fn new(rest: usize) -> Self {
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

/// Returns an address of zeros.
pub fn empty_address() -> libc::sockaddr_in6 {
    // SAFETY: sockaddr_in6 is plain integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Writes `address` in the kernel's form and returns the length. An IPv4 address occupies the first 16 bytes.
pub fn write_address(to: &mut libc::sockaddr_in6, address: SocketAddr) -> libc::socklen_t {
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
            // SAFETY: both are plain integers, sockaddr_in is the smaller one and needs no stricter
            // alignment.
            unsafe { (&raw mut *to).cast::<libc::sockaddr_in>().write(v4) };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(v6) => {
            *to = libc::sockaddr_in6 {
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

pub fn read_address(to: &libc::sockaddr_in6) -> Option<SocketAddr> {
    match i32::from(to.sin6_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote a sockaddr_in (16 bytes) here; it is plain integers.
            let v4 = unsafe { (&raw const *to).cast::<libc::sockaddr_in>().read() };
            let ip = v4.sin_addr.s_addr.to_ne_bytes().into();
            Some(SocketAddr::V4(SocketAddrV4::new(
                ip,
                u16::from_be(v4.sin_port),
            )))
        }
        libc::AF_INET6 => {
            let ip = to.sin6_addr.s6_addr.into();
            Some(SocketAddr::V6(SocketAddrV6::new(
                ip,
                u16::from_be(to.sin6_port),
                0,
                0,
            )))
        }
        _ => None,
    }
}
