//! A download's socket: connected to the server, with a large receive buffer, read in batches.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Prevents drops at 1 Gbit/s while the process waits 60 ms for a core.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
const BATCH: usize = 64;
/// The largest datagram that can arrive over Ethernet. Longer datagrams are truncated and cannot be decrypted.
const DATAGRAM_BYTES: usize = 2048;
/// Index of the drop counter in the numbers of SO_MEMINFO (linux/sock_diag.h).
const MEMINFO_DROPS: usize = 8;
const MEMINFO_NUMBERS: usize = 9;

pub struct Socket {
    udp: UdpSocket,
    buffers: Vec<u8>,
}

impl Socket {
    /// Opens a non-blocking socket that exchanges datagrams only with `server`.
    pub fn connect(server: SocketAddr) -> io::Result<Socket> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let udp = UdpSocket::bind((any, 0))?;
        udp.connect(server)?;
        udp.set_nonblocking(true)?;
        // With the privilege, the size may exceed the machine's limit. Otherwise the limit applies.
        if !set(&udp, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER) {
            set(&udp, libc::SO_RCVBUF, RECEIVE_BUFFER);
        }
        Ok(Socket {
            udp,
            buffers: vec![0; BATCH * DATAGRAM_BYTES],
        })
    }

    /// The local address and port.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// Sends one datagram. If the kernel has no room for it, the datagram is lost, as on the path.
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match self.udp.send(datagram) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Reads the waiting datagrams, at most one batch, and passes each to `take`. Returns their number.
    pub fn receive(&mut self, mut take: impl FnMut(&mut [u8])) -> io::Result<usize> {
        let mut parts: Vec<libc::iovec> = self
            .buffers
            .chunks_exact_mut(DATAGRAM_BYTES)
            .map(|chunk| libc::iovec {
                iov_base: chunk.as_mut_ptr().cast(),
                iov_len: chunk.len(),
            })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: an all-zero message header has no address, no parts and no control data.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        // SAFETY: each header points to one part, each part to a chunk of `buffers`; both live until the end.
        let read = unsafe {
            libc::recvmmsg(
                self.udp.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if read < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        }
        let lengths: Vec<usize> = headers[..read as usize]
            .iter()
            .map(|header| header.msg_len as usize)
            .collect();
        for (chunk, length) in self.buffers.chunks_exact_mut(DATAGRAM_BYTES).zip(&lengths) {
            take(&mut chunk[..*length]);
        }
        Ok(lengths.len())
    }

    /// The size of the receive buffer, and the number of datagrams that the kernel dropped because it was full.
    pub fn state(&self) -> (Option<u64>, Option<u64>) {
        let mut size: libc::c_int = 0;
        let mut numbers = [0_u32; MEMINFO_NUMBERS];
        let buffer = get(&self.udp, libc::SO_RCVBUF, &mut size).then_some(size as u64);
        let drops = get(&self.udp, libc::SO_MEMINFO, &mut numbers);
        (buffer, drops.then(|| u64::from(numbers[MEMINFO_DROPS])))
    }

    pub fn as_fd(&self) -> &UdpSocket {
        &self.udp
    }
}

fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> bool {
    // SAFETY: the value is an int with the given length.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    status == 0
}

fn get<T>(socket: &UdpSocket, option: libc::c_int, value: &mut T) -> bool {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has the given length. The kernel writes no more bytes than that.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (value as *mut T).cast(),
            &mut length,
        )
    };
    status == 0 && length as usize == size_of::<T>()
}
