//! A TCP connection for one question and the answer (RFC 1035 4.2.2, RFC 7766). It never blocks.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

/// Bytes of a message's length prefix.
const PREFIX: usize = 2;
/// Most bytes per read.
const READ: usize = 4096;

/// A connection's state.
pub enum Progress<'a> {
    /// No complete answer yet.
    Waits,
    /// The answer, without the length prefix.
    Message(&'a [u8]),
    Failed(io::Error),
}

/// A connection.
pub struct Tcp {
    stream: TcpStream,
    out: Vec<u8>,
    written: usize,
    /// At most a message of 65,535 bytes and the length.
    read: Vec<u8>,
}

impl Tcp {
    /// Starts to connect. `question` is at most 65,535 bytes long.
    pub fn connect(address: SocketAddr, question: &[u8]) -> io::Result<Tcp> {
        let length = u16::try_from(question.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        match net::connect(&socket, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Tcp {
            stream: TcpStream::from(socket),
            out: [&length.to_be_bytes(), question].concat(),
            written: 0,
            read: Vec::new(),
        })
    }

    /// Writes and reads as much as possible without blocking.
    pub fn advance(&mut self) -> Progress<'_> {
        if let Ok(Err(error)) = net::sockopt::socket_error(&self.stream) {
            return Progress::Failed(error.into());
        }
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) => return waits_or_failed(error),
            }
        }
        loop {
            let start = self.read.len();
            let whole = self.whole_length();
            let missing = whole.saturating_sub(start);
            if missing == 0 {
                return Progress::Message(&self.read[PREFIX..whole]);
            }
            self.read.resize(start + missing.min(READ), 0);
            let result = self.stream.read(&mut self.read[start..]);
            self.read.truncate(start + *result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => return Progress::Failed(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) => return waits_or_failed(error),
            }
        }
    }

    /// Returns the length of the message and the prefix, or only of the prefix if the message's length is not
    /// known yet.
    fn whole_length(&self) -> usize {
        match self.read.first_chunk::<PREFIX>() {
            Some(length) => PREFIX + usize::from(u16::from_be_bytes(*length)),
            None => PREFIX,
        }
    }
}

fn waits_or_failed<'a>(error: io::Error) -> Progress<'a> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Progress::Waits,
        _ => Progress::Failed(error),
    }
}

impl AsFd for Tcp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
