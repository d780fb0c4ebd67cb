//! A batch of datagrams, or of messages of the error queue, read by recvmmsg(2).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::cmsg::Control;
use super::{BATCH, Buffers, CONTROL, REST, ROOM, read_address};

/// Received datagrams. The buffers are reused.
pub struct Inbox {
    buffers: Buffers,
}

/// One received datagram.
pub struct Received<'a> {
    /// Sender; in the error queue, the destination of the datagram that caused the error.
    pub peer: Option<SocketAddr>,
    pub control: Control,
    pub bytes: &'a mut [u8],
}

impl Inbox {
    /// Creates room for a batch of datagrams of any size.
    pub fn new() -> Self {
        Inbox {
            buffers: Buffers::new(REST),
        }
    }

    /// Creates room for a batch from the error queue, which quotes our datagrams.
    pub fn of_errors() -> Self {
        Inbox {
            buffers: Buffers::new(0),
        }
    }

    /// Reads at most a batch, without waiting. `errors`: read the error queue. Calls `each` for every message
    /// and returns their number.
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
        // SAFETY: the headers point to name, control bytes and payload of their own frames, of the lengths
        // set here and in `Buffers::new`.
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

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;
    use crate::sockets::messages::Batch;

    fn round_trip(address: &str) {
        let (a, b) = (
            UdpSocket::bind(address).unwrap(),
            UdpSocket::bind(address).unwrap(),
        );
        let to = b.local_addr().unwrap();
        let mut out = Batch::new();
        for i in 0..3u8 {
            out.push::<()>(Some(to), false, |bytes| {
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
            // The largest datagram is second, so that its index matters.
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
