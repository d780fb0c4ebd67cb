//! One UDP socket, which does not block, and the wait for it.

use crate::text;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use tquic::{PacketInfo, PacketSendHandler};

/// The longest datagram there is.
pub const LONGEST: usize = 65_535;

/// The socket of one connection.
pub struct Network {
    socket: UdpSocket,
    local: SocketAddr,
}

impl Network {
    /// A socket that reaches `remote`; an error is one sentence.
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

    /// Its own address, as tquic shall see it.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Waits for a datagram, up to so long. To the nanosecond: a wait in whole milliseconds would make timers late.
    pub fn wait(&self, longest: Duration) -> Result<(), String> {
        let longest = Timespec::try_from(longest).map_err(text)?;
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut sockets, Some(&longest)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Takes a datagram, if there is one, into `room`: its length, whence and when.
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
    /// Sends what the socket takes; tquic keeps the rest for the next time.
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
