//! Launch times: each datagram carries the time when a queueing discipline (fq, etf) must send it (SO_TXTIME).

use rustix::cmsg_space;
use rustix::net::sockopt::set_txtime;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, TxTimeFlags, sendmsg_addr,
};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// etf drops a datagram with a launch time in the past, and dequeues it some time before the launch time (`delta`).
const ETF_LEAD: Duration = Duration::from_micros(500);

/// A queueing discipline's clock.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    clock: ClockId,
    lead: Duration,
}

impl Launch {
    /// `monotonic` is the clock of fq, `tai` the clock of etf. An error is a sentence.
    pub fn new(clock: &str) -> Result<Self, String> {
        match clock {
            "monotonic" => Ok(Self {
                clock: ClockId::Monotonic,
                lead: Duration::ZERO,
            }),
            "tai" => Ok(Self {
                clock: ClockId::Tai,
                lead: ETF_LEAD,
            }),
            other => Err(format!(
                "launch_clock `{other}` is neither monotonic nor tai"
            )),
        }
    }

    /// Returns the minimum time between a datagram's queueing and the launch time.
    pub fn lead(self) -> Duration {
        self.lead
    }

    /// Enables launch times on a socket.
    pub fn prepare(self, socket: &UdpSocket) -> io::Result<()> {
        Ok(set_txtime(socket, self.clock, TxTimeFlags::empty())?)
    }

    /// Sends a datagram with launch time `at`, or the earliest time that the queueing discipline supports.
    pub fn send(
        self,
        socket: &UdpSocket,
        peer: SocketAddr,
        bytes: &[u8],
        at: Instant,
    ) -> io::Result<()> {
        let ahead = at.saturating_duration_since(Instant::now()).max(self.lead);
        let now = clock_gettime(self.clock);
        let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
        let mut space = [MaybeUninit::uninit(); cmsg_space!(TxTime(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::TxTime((now + ahead).as_nanos() as u64));
        let content = [IoSlice::new(bytes)];
        sendmsg_addr(socket, &peer, &content, &mut control, SendFlags::empty())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_with_a_launch_time_arrives() {
        let local: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let receiver = UdpSocket::bind(local).expect("a socket");
        let sender = UdpSocket::bind(local).expect("a socket");
        let launch = Launch::new("monotonic").expect("a clock");
        launch.prepare(&sender).expect("SO_TXTIME");
        let peer = receiver.local_addr().expect("an address");
        launch
            .send(&sender, peer, b"launched", Instant::now())
            .expect("sent");
        let mut buffer = [0; 16];
        let length = receiver.recv(&mut buffer).expect("a datagram");
        assert_eq!(&buffer[..length], b"launched");
    }

    #[test]
    fn other_clocks_are_refused() {
        let error = Launch::new("boottime").expect_err("no such clock");
        assert!(error.contains("neither monotonic nor tai"), "{error}");
    }
}
