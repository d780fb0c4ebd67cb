//! A batch of datagrams that leave from one port by sendmmsg(2).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{BATCH, Buffers, ROOM, write_address};

/// Per-message request for a transmit stamp (SO_TIMESTAMPING as control message): one u32.
const STAMP_REQUEST: usize = 24;

/// Datagrams to send. The buffers are reused.
pub struct Batch {
    buffers: Buffers,
    len: usize,
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        let mut buffers = Buffers::new(0);
        for frame in &mut buffers.frames {
            let request = &mut frame.control.0;
            request[..8].copy_from_slice(&20u64.to_ne_bytes());
            request[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
            request[12..16].copy_from_slice(&libc::SO_TIMESTAMPING.to_ne_bytes());
            request[16..20].copy_from_slice(&libc::SOF_TIMESTAMPING_TX_SOFTWARE.to_ne_bytes());
        }
        Batch { buffers, len: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.len == BATCH
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns the number of datagrams.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a datagram to `to`, or to the socket's connected address if `to` is `None`. `fill` writes the
    /// datagram; `stamp` requests a transmit stamp. The batch must not be full.
    pub fn push<E>(
        &mut self,
        to: Option<SocketAddr>,
        stamp: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let frame = &mut self.buffers.frames[self.len];
        let payload = &mut self.buffers.bytes[self.len * ROOM..][..ROOM];
        self.buffers.vectors[self.len].iov_len = fill(payload)?;
        let header = &mut self.buffers.headers[self.len].msg_hdr;
        header.msg_namelen = to.map_or(0, |to| write_address(&mut frame.name, to));
        header.msg_controllen = if stamp { STAMP_REQUEST } else { 0 };
        self.len += 1;
        Ok(())
    }

    /// Hands the datagrams from number `from` on to the kernel. Returns how many the kernel accepted, or why
    /// it did not accept the first.
    pub fn send(&mut self, socket: BorrowedFd<'_>, from: usize) -> io::Result<usize> {
        let headers = &mut self.buffers.headers[from..self.len];
        // SAFETY: the headers point to name, control bytes and payload of their own frames, of the lengths
        // set in `push`.
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
