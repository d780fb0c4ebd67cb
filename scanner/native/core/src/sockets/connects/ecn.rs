//! Finds out whether a SYN-ACK agrees to ECN where the kernel does not report it.
//!
//! A SYN-ACK agrees if it has ECE and not CWR (RFC 3168 6.1.1). Since AccECN (RFC 9768, Linux 6.18), the
//! kernel reads three bits in a SYN-ACK: AE, CWR and ECE. TCP_INFO then reports ECN for more combinations,
//! without a distinction, although our SYN offered only RFC 3168. The sockets of such SYNs therefore have a
//! filter, which drops every SYN-ACK on which the kernel and RFC 3168 differ. The kernel then continues to
//! wait, and counts the dropped SYN-ACKs.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Offsets in a TCP header of the byte with length, reserved bits and AE, and of the flags (RFC 9293 3.1).
const LENGTH_AND_FLAGS: u32 = 12;
const FLAGS: u32 = 13;
/// Bits of the flags.
const SYN_ACK: u32 = 0x12;
/// Bits of both bytes together.
const ECE: u32 = 0x0040;
const CWR: u32 = 0x0080;
const AE: u32 = 0x0100;

/// Index of the count of drops in SO_MEMINFO, in units of 32 bits (SK_MEMINFO_DROPS of linux/sock_diag.h).
const DROPS: usize = 8;

/// Attaches a filter that drops SYN-ACKs on which the kernel and RFC 3168 differ. All other segments pass.
pub fn drop_what_differs(socket: &OwnedFd) -> io::Result<()> {
    let mut program = program();
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` names the instructions of `program`, which outlive the call; the kernel copies them.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns how many segments to a socket were dropped, by the filter or later by the kernel.
pub fn dropped(socket: &OwnedFd) -> u32 {
    let mut counts = [0u32; DROPS + 1];
    let mut length = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `counts` has.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            counts.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let is_whole = status == 0 && length as usize == size_of_val(&counts);
    if is_whole { counts[DROPS] } else { 0 }
}

/// Returns the filter. It receives segments from the TCP header on.
fn program() -> [libc::sock_filter; 12] {
    let load_byte = |at| instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, at);
    let load_two = |at| instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, at);
    let and = |bits| instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, bits);
    let skip_if =
        |value, count| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, count, value);
    let end = |length| instruction(libc::BPF_RET | libc::BPF_K, 0, length);
    [
        load_byte(FLAGS),
        and(SYN_ACK),
        // A segment other than a SYN-ACK passes.
        skip_if(SYN_ACK, 1),
        end(u32::MAX),
        load_two(LENGTH_AND_FLAGS),
        and(AE | CWR | ECE),
        // Both readings find no agreement, or both find agreement (for RFC 3168, AE is a reserved bit).
        skip_if(0, 4),
        skip_if(ECE, 3),
        skip_if(AE | ECE, 2),
        // All three bits: the server reflected them, which the kernel detects.
        skip_if(AE | CWR | ECE, 1),
        end(0),
        end(u32::MAX),
    ]
}

fn instruction(code: u32, jump_if_true: u8, operand: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: jump_if_true,
        jf: 0,
        k: operand,
    }
}
