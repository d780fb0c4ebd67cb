//! A non-blocking UDP socket, and waiting for it.

use crate::text;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use tquic::{PacketInfo, PacketSendHandler};

/// Maximum length of a datagram.
pub const LONGEST: usize = 65_535;

/// A connection's socket.
pub struct Network {
    socket: UdpSocket,
    local: SocketAddr,
}

impl Network {
    /// Opens a socket that can reach `remote`; errors are one sentence.
    pub fn new(remote: IpAddr) -> Result<Self, String> {
        let any: IpAddr = match remote {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).map_err(text)?;
        socket.set_nonblocking(true).map_err(text)?;
        let local = socket.local_addr().map_err(text)?;
        Ok(Self { socket, local })
    }

    /// The socket's address, as passed to tquic.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Waits for a datagram, at most `longest`. The limit is exact to the nanosecond, so that timers are not late.
    pub fn wait(&self, longest: Duration) -> Result<(), String> {
        let longest = Timespec::try_from(longest).map_err(text)?;
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut sockets, Some(&longest)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Receives a pending datagram into `room`; returns the length, source and time.
    pub fn receive(&self, room: &mut [u8]) -> Result<Option<(usize, PacketInfo)>, String> {
        match self.socket.recv_from(room) {
            Ok((length, from)) => {
                let info = PacketInfo {
                    src: from,
                    dst: self.local,
                    time: Instant::now(),
                };
                Ok(Some((length, info)))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl PacketSendHandler for Network {
    /// Sends packets until the socket would block; tquic sends the rest next time.
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        for (number, (datagram, info)) in packets.iter().enumerate() {
            match self.socket.send_to(datagram, info.dst) {
                Ok(_) => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(number),
                Err(error) => return Err(tquic::Error::IoError(error.to_string())),
            }
        }
        Ok(packets.len())
    }
}
