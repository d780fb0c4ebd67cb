//! Messages for a sendmmsg(2) or recvmmsg(2) call, with buffers that are reused.

use std::io;
use std::mem;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

/// Messages per call.
pub const BATCH: usize = 64;
/// Targets per pass: a pass may send a close and an Initial to each.
pub const MOST: u32 = BATCH as u32 / 2;

const ROOM: usize = 2048;
const CONTROL: usize = 256;
/// Bytes in a control message that requests a transmit timestamp: one u32.
const STAMP_REQUEST: usize = 24;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// A batch's buffers.
pub struct Batch {
    names: Box<[libc::sockaddr_in]>,
    controls: Box<[Control]>,
    bytes: Box<[[u8; ROOM]]>,
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    len: usize,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        // SAFETY: these are plain integers and pointers, for which zero is a value.
        let (name, header): (libc::sockaddr_in, libc::mmsghdr) = unsafe { mem::zeroed() };
        let mut control = Control([0; CONTROL]);
        control.0[..8].copy_from_slice(&20_u64.to_ne_bytes());
        control.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        control.0[12..16].copy_from_slice(&libc::SO_TIMESTAMPING.to_ne_bytes());
        control.0[16..20].copy_from_slice(&libc::SOF_TIMESTAMPING_TX_SOFTWARE.to_ne_bytes());
        let mut batch = Batch {
            names: vec![name; BATCH].into(),
            controls: vec![control; BATCH].into(),
            bytes: vec![[0; ROOM]; BATCH].into(),
            vectors: Box::new([]),
            headers: vec![header; BATCH].into(),
            len: 0,
        };
        let vector = |room: &mut [u8; ROOM]| libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: ROOM,
        };
        batch.vectors = batch.bytes.iter_mut().map(vector).collect();
        for (i, header) in batch.headers.iter_mut().enumerate() {
            let header = &mut header.msg_hdr;
            header.msg_name = (&raw mut batch.names[i]).cast();
            header.msg_iov = &raw mut batch.vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = batch.controls[i].0.as_mut_ptr().cast();
        }
        batch
    }

    /// Adds a datagram; `stamp` requests the transmit timestamp. A batch holds at most [`BATCH`].
    pub fn push(&mut self, to: SocketAddrV4, datagram: &[u8], stamp: bool) {
        let i = self.len;
        self.bytes[i][..datagram.len()].copy_from_slice(datagram);
        self.vectors[i].iov_len = datagram.len();
        self.names[i] = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: to.port().to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes(to.ip().octets()),
            },
            sin_zero: [0; 8],
        };
        let header = &mut self.headers[i].msg_hdr;
        header.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
        header.msg_controllen = if stamp { STAMP_REQUEST } else { 0 };
        self.len += 1;
    }

    /// Sends all added datagrams and empties the batch; returns their number.
    pub fn send(&mut self, socket: &UdpSocket) -> io::Result<u64> {
        let mut sent = 0;
        while sent < self.len {
            let headers = &mut self.headers[sent..self.len];
            let (first, count) = (headers.as_mut_ptr(), headers.len() as u32);
            // SAFETY: the headers point into buffers of this value, of the lengths set in `push`.
            let n = unsafe { libc::sendmmsg(socket.as_raw_fd(), first, count, 0) };
            if n < 0 {
                return Err(io::Error::last_os_error());
            }
            sent += n as usize;
        }
        self.len = 0;
        Ok(sent as u64)
    }

    /// Reads all pending datagrams, or with `errors` all pending transmit timestamps; returns the number of messages.
    pub fn receive(&mut self, socket: &UdpSocket, errors: bool) -> io::Result<u64> {
        let flags = libc::MSG_DONTWAIT | if errors { libc::MSG_ERRQUEUE } else { 0 };
        let mut all = 0;
        loop {
            for header in &mut self.headers {
                header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
                header.msg_hdr.msg_controllen = CONTROL;
            }
            let headers = self.headers.as_mut_ptr();
            // SAFETY: the headers point into buffers of this value, of the lengths set here and in `new`; `push` was
            // never called.
            let n = unsafe {
                let none = std::ptr::null_mut();
                libc::recvmmsg(socket.as_raw_fd(), headers, BATCH as u32, flags, none)
            };
            if n < 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(all),
                    _ => Err(error),
                };
            }
            all += n as u64;
            if (n as usize) < BATCH {
                return Ok(all);
            }
        }
    }
}
