//! Passes at regular intervals: read, send, sleep.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::Options;
use crate::batch::Batch;
use crate::packets::Packets;

/// Pause between two looks for late answers and timestamps after the last pass, and the maximum number of looks.
const REST: Duration = Duration::from_millis(100);
const LOOKS: u32 = 300;
/// Same timestamp options as the prober's sockets: receive and, on request, transmit timestamps, numbered and without
/// the packet.
const REPORT: u32 = libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;
const RECEIVE_BUFFER: u32 = 8 << 20;

/// A run's counts and CPU time.
pub struct Found {
    /// Datagrams sent: an Initial per target, and a close per target except in the last pass.
    pub sent: u64,
    /// Datagrams received.
    pub datagrams: u64,
    /// Transmit timestamps of Initials.
    pub stamps: u64,
    pub passes: u64,
    /// CPU time of the process from the first pass to the end, in seconds.
    pub cpu_s: f64,
}

/// Sends all Initials of `options` and reads their answers: two datagrams per target, unless one is lost.
pub fn run(options: &Options) -> io::Result<Found> {
    let packets = Packets::new().map_err(io::Error::other)?;
    let socket = open()?;
    let (mut out, mut inbox, mut errors) = (Batch::new(), Batch::new(), Batch::new());
    let targets = u64::from(options.targets);
    let together = u64::from(options.together);
    let pause = Duration::from_secs(together) / options.rate;
    let mut found = Found {
        sent: 0,
        datagrams: 0,
        stamps: 0,
        passes: 0,
        cpu_s: 0.0,
    };
    let used = cpu_s();
    let mut next = Instant::now();
    let mut last = 0..0;
    while last.end < targets {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        // A late pass delays the following ones: two passes at once would cost less than two separate passes.
        next = (next + pause).max(Instant::now());
        found.datagrams += inbox.receive(&socket, false)?;
        found.stamps += errors.receive(&socket, true)?;
        let new = last.end..(last.end + together).min(targets);
        for target in last {
            out.push(address(target, options.port), &packets.close, false);
        }
        for target in new.clone() {
            out.push(address(target, options.port), &packets.initial, true);
        }
        found.sent += out.send(&socket)?;
        last = new;
        found.passes += 1;
    }
    for _ in 0..LOOKS {
        thread::sleep(REST);
        found.datagrams += inbox.receive(&socket, false)?;
        found.stamps += errors.receive(&socket, true)?;
        if found.datagrams >= 2 * targets && found.stamps >= targets {
            break;
        }
    }
    found.cpu_s = cpu_s() - used;
    Ok(found)
}

/// Returns the address of target number `target`, counted from 127.1.0.0.
fn address(target: u64, port: u16) -> SocketAddrV4 {
    let [.., a, b, c] = (0x01_0000 + target).to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(127, a, b, c), port)
}

/// Opens a socket with the same options as the prober's.
fn open() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let set = |level, option, value: u32| {
        let length = size_of::<u32>() as libc::socklen_t;
        // SAFETY: the option value is an integer of the length given.
        let status = unsafe {
            let value = (&raw const value).cast();
            libc::setsockopt(socket.as_raw_fd(), level, option, value, length)
        };
        if status == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    // A buffer larger than rmem_max needs CAP_NET_ADMIN.
    set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)
        .or_else(|_| set(libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER))?;
    for option in [libc::IP_RECVERR, libc::IP_RECVTTL, libc::IP_PKTINFO] {
        set(libc::IPPROTO_IP, option, 1)?;
    }
    let do_not_fragment = libc::IP_PMTUDISC_DO as u32;
    set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, do_not_fragment)?;
    set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, REPORT)?;
    Ok(socket)
}

/// Returns the CPU time (user and system) of this process in seconds.
fn cpu_s() -> f64 {
    // SAFETY: plain integers, for which zero is a value; the call writes them.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_addresses_of_their_own_on_loopback() {
        let of = |target| address(target, 1).to_string();
        assert_eq!(
            [of(0), of(255), of(256), of(999_999)],
            [
                "127.1.0.0:1",
                "127.1.0.255:1",
                "127.1.1.0:1",
                "127.16.66.63:1"
            ]
        );
    }
}
