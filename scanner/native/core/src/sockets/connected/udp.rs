//! A UDP socket connected to one server, with the kernel's receive stamps.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use super::is_server;
use crate::clock::Stamp;
use crate::sockets::egress::BATCH;
use crate::sockets::egress::socket::set;
use crate::sockets::messages::Inbox;

/// Software receive stamps (SO_TIMESTAMPING).
const REPORT: u32 = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;

/// A socket, and the questions sent from it.
pub struct Udp {
    socket: UdpSocket,
    address: SocketAddr,
    /// Number of the server.
    pub server: usize,
    /// Questions sent from it.
    pub asked: u32,
    /// Sent questions that are not finished.
    pub open: u32,
    /// No further question leaves from it.
    pub retired: bool,
}

impl Udp {
    /// Connects a socket to `address`; sends nothing. The kernel chooses the source port.
    pub fn open(address: SocketAddr, server: usize) -> io::Result<Udp> {
        let any: IpAddr = if address.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, REPORT)?;
        Ok(Udp {
            socket,
            address,
            server,
            asked: 0,
            open: 0,
            retired: false,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads at most `batches` batches. Passes each datagram with the stamp, or the error, to `each`. Returns
    /// the number of datagrams from other senders, which arrived before the socket was connected, and whether
    /// there is nothing more to read.
    pub fn read(
        &self,
        inbox: &mut Inbox,
        batches: usize,
        mut each: impl FnMut(io::Result<(&[u8], Option<Stamp>)>),
    ) -> (u64, bool) {
        let mut elsewhere = 0;
        for _ in 0..batches {
            let read = inbox.receive(self.socket.as_fd(), false, |got| match got.peer {
                Some(peer) if is_server(self.address, peer) => {
                    each(Ok((&*got.bytes, got.control.stamp)))
                }
                _ => elsewhere += 1,
            });
            match read {
                Ok(count) if count < BATCH => return (elsewhere, true),
                Ok(_) => {}
                Err(error) => {
                    each(Err(error));
                    return (elsewhere, true);
                }
            }
        }
        (elsewhere, false)
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
