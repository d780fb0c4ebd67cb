//! The packet sockets (packet(7)): a mapped receive ring over all interfaces, and a socket to send from.

use crate::frame::ETHERNET_HEADER;
use std::ffi::{CString, c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const FRAME_SIZE: usize = 2048; // an Ethernet frame of 1514 bytes and the ring's headers
const BLOCK_SIZE: usize = 1 << 16;
const BLOCKS: usize = 128; // 8 MiB: 4096 frames

const SOF_TIMESTAMPING_SOFTWARE: c_int = 1 << 4;

/// Returns an interface's index in this namespace.
pub fn interface_index(name: &str) -> io::Result<c_int> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `name` is a NUL-terminated string that lives longer than the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    c_int::try_from(index).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A frame in the ring, valid until the callback returns.
pub struct Arrival<'a> {
    pub interface: c_int,
    pub at_ns: u64,
    pub frame: &'a [u8],
}

/// Receives the frames of all interfaces of the namespace, with the kernel's receive stamps.
pub struct Receiver {
    socket: OwnedFd,
    ring: *mut u8,
    next: usize,
}

impl Receiver {
    pub fn open() -> io::Result<Self> {
        let socket = packet_socket(0)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)?; // enables receive stamps
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        set(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_TIMESTAMP,
            &SOF_TIMESTAMPING_SOFTWARE,
        )?;
        set(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as c_int),
        )?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_SIZE as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME_SIZE as u32,
            tp_frame_nr: (BLOCK_SIZE / FRAME_SIZE * BLOCKS) as u32,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new shared mapping of the ring that the call above made, of exactly its size; it is never
        // unmapped, because the receiver lives as long as the process.
        let ring = unsafe {
            libc::mmap(
                ptr::null_mut(),
                BLOCK_SIZE * BLOCKS,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let receiver = Self {
            socket,
            ring: ring.cast(),
            next: 0,
        };
        receiver.listen()?; // last, so that no frame arrives before the ring exists
        Ok(receiver)
    }

    fn listen(&self) -> io::Result<()> {
        let address = link_address(0);
        // SAFETY: a sockaddr_ll and its size.
        let result = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Passes every frame that has arrived to `take`; returns their number (at most one ring full).
    pub fn drain(&mut self, mut take: impl FnMut(Arrival<'_>)) -> usize {
        let frames = BLOCK_SIZE / FRAME_SIZE * BLOCKS;
        for count in 0..frames {
            // SAFETY: `next` < frames, so the slot lies inside the mapping, which lives as long as the process.
            // Slots are aligned to 2048 bytes, more than a tpacket2_hdr needs.
            #[allow(clippy::cast_ptr_alignment)]
            let slot = unsafe { self.ring.add(self.next * FRAME_SIZE) };
            // SAFETY: tp_status is the slot's first field; the kernel writes it too, hence the atomic.
            #[allow(clippy::cast_ptr_alignment)]
            let status = unsafe { AtomicU32::from_ptr(slot.cast::<u32>()) };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return count;
            }
            // SAFETY: TP_STATUS_USER: the kernel has filled the slot and does not write to it until it is given
            // back below. Header, sockaddr_ll (at the header's aligned end) and `tp_snaplen` bytes at `tp_mac` lie in it.
            #[allow(clippy::cast_ptr_alignment)]
            let (header, address, frame) = unsafe {
                let header = &*slot.cast::<libc::tpacket2_hdr>();
                let address = &*slot.add(TPACKET2_ADDRESS).cast::<libc::sockaddr_ll>();
                let length =
                    (header.tp_snaplen as usize).min(FRAME_SIZE - usize::from(header.tp_mac));
                (
                    header,
                    address,
                    std::slice::from_raw_parts(slot.add(usize::from(header.tp_mac)), length),
                )
            };
            if frame.len() > ETHERNET_HEADER {
                take(Arrival {
                    interface: address.sll_ifindex,
                    at_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
                    frame,
                });
            }
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % frames;
        }
        frames
    }

    /// Sleeps until a frame arrives or `limit` has passed (`None`: no limit).
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: one pollfd, a timespec or null, and no signal mask.
        let result = unsafe { libc::ppoll(&mut poll, 1, time, ptr::null()) };
        if result < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the number of frames dropped since the last call because the ring was full.
    pub fn lost(&self) -> io::Result<u32> {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: room for a tpacket_stats and its length.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                ptr::from_mut(&mut statistics).cast(),
                &mut length,
            )
        };
        if result == 0 {
            Ok(statistics.tp_drops)
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Offset of the sockaddr_ll in a ring slot: TPACKET_ALIGN(sizeof(struct tpacket2_hdr)).
const TPACKET2_ADDRESS: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

/// Sends frames through chosen interfaces, bypassing the queueing disciplines.
pub struct Sender {
    socket: OwnedFd,
}

impl Sender {
    pub fn open() -> io::Result<Self> {
        let socket = packet_socket(0)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
        // The socket is charged for a frame until the receiving namespace has taken it, so bursts need a large
        // buffer.
        set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &(4 << 20))?;
        Ok(Self { socket })
    }

    pub fn send(&self, interface: c_int, frame: &[u8]) -> io::Result<()> {
        let address = link_address(interface);
        // SAFETY: a buffer with its length, and a sockaddr_ll with its size.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast::<c_void>(),
                frame.len(),
                libc::MSG_DONTWAIT,
                ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

/// A raw packet socket; protocol 0 receives nothing until it is bound.
fn packet_socket(protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe {
        libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            protocol,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn link_address(interface: c_int) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    }
}

fn set<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: a plain value with its size; the kernel copies it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
