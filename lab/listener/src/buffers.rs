//! Buffers of several datagrams, which the kernel splits (UDP_SEGMENT).
//!
//! For a buffer with a launch time, the kernel of the testbed's guests (testbed/guest/changes/paced-gso.patch)
//! derives the gap between datagrams from the socket's maximum pacing rate. Other kernels send them without gaps.

#![allow(unsafe_code)]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// No limit on the pacing rate (socket(7), SO_MAX_PACING_RATE).
const UNLIMITED: u64 = u64::MAX;

/// Makes the kernel split sent buffers into datagrams of `bytes`. The last datagram may be shorter.
pub fn divide(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    set(
        socket,
        libc::SOL_UDP,
        libc::UDP_SEGMENT,
        libc::c_int::from(bytes),
    )
}

/// Sets the pacing rate, in payload bytes per second, for the datagrams in a buffer with a launch time; `None`: no
/// gaps. fq also applies the rate to datagrams without launch times.
pub fn pace(socket: &UdpSocket, rate: Option<u64>) -> io::Result<()> {
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        rate.unwrap_or(UNLIMITED),
    )
}

/// Sets a socket option that rustix does not support.
fn set<T: Copy>(
    socket: &UdpSocket,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer refers to `value`, which has this length and lives longer than the call.
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
        // udp(7): a datagram's length has 16 bits.
        let error = set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, -1_i32).expect_err("no length");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
