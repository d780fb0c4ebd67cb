//! A server on loopback that answers every question with one address. It is for measuring the engine:
//!
//!     cargo run --release -p firstflight-resolve --example answering 127.0.0.1:5300

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_types, reason = "it is what the engine asks")]

use std::io;
use std::net::UdpSocket;

fn main() -> io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:5300".into());
    let socket = UdpSocket::bind(&address)?;
    if !socket.local_addr()?.ip().is_loopback() {
        return Err(io::Error::other(
            "only a loopback address is meant for this",
        ));
    }
    println!("ready {}", socket.local_addr()?);
    let mut room = [0; 2048];
    loop {
        let (length, client) = socket.recv_from(&mut room)?;
        let mut end = 12;
        while room.get(end).is_some_and(|label| *label != 0) {
            end += 1 + usize::from(room[end]);
        }
        if length < 17 || end + 5 > length {
            continue;
        }
        let kind = [room[end + 1], room[end + 2]];
        let data: &[u8] = match u16::from_be_bytes(kind) {
            1 => b"\xc6\x12\0\x01",
            28 => b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01",
            _ => b"\0\x01\0\0\x01\0\x03\x02h3",
        };
        room[2..4].copy_from_slice(&[0x81, 0x80]);
        room[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
        let mut answer = room[..end + 5].to_vec();
        answer.extend(b"\xc0\x0c");
        answer.extend(kind);
        answer.extend(b"\0\x01\0\0\0\x3c");
        answer.extend((data.len() as u16).to_be_bytes());
        answer.extend(data);
        socket.send_to(&answer, client)?;
    }
}
