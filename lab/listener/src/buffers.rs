//! Buffers of several datagrams, which the kernel divides (UDP_SEGMENT).
//!
//! The kernel of the testbed's guests (testbed/guest/changes/paced-gso.patch) takes the gap between the datagrams of a buffer with a
//! launch time from the socket's maximum pacing rate. Any other kernel sends them at once.

#![allow(unsafe_code)]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// No limit of the pacing rate (socket(7), SO_MAX_PACING_RATE).
const UNLIMITED: u64 = u64::MAX;

/// Has the kernel divide what the socket sends into datagrams of `bytes`; the last may be shorter.
pub fn divide(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    set(
        socket,
        libc::SOL_UDP,
        libc::UDP_SEGMENT,
        libc::c_int::from(bytes),
    )
}

/// Sets the rate in payload bytes a second at which datagrams of a buffer with a launch time follow each other; `None`: at
/// once. fq takes it for those without launch times, too.
pub fn pace(socket: &UdpSocket, rate: Option<u64>) -> io::Result<()> {
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        rate.unwrap_or(UNLIMITED),
    )
}

/// Sets a socket option that rustix does not have.
fn set<T: Copy>(
    socket: &UdpSocket,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to `value`, which has this length and lives beyond the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            length,
        )
    };
    if status == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_arrives_as_datagrams() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let to = receiver.local_addr().expect("an address");
        divide(&sender, 300).expect("UDP_SEGMENT");
        for rate in [Some(1_000_000), None] {
            pace(&sender, rate).expect("SO_MAX_PACING_RATE");
            assert_eq!(sender.send_to(&[7; 650], to).expect("sent"), 650);
            let mut buffer = [0; 1000];
            for length in [300, 300, 50] {
                assert_eq!(receiver.recv(&mut buffer).expect("a datagram"), length);
            }
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        // udp(7): the length of a datagram is one of 16 bits.
        let error = set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, -1_i32).expect_err("no length");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
