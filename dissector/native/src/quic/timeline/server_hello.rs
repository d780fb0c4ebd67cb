//! Finds the first byte of the ServerHello in the server's CRYPTO stream, after any HelloRetryRequest.

use firstflight_wire::tls::{HelloKind, hello_kind};
use firstflight_wire::{CryptoStream, Error};

/// Maximum number of bytes kept until the type of the first message is known.
const BUDGET: usize = 8192;
/// A handshake message's type and length.
const HEADER: usize = 4;

/// The result of reading a CRYPTO frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// The first byte in a message that may still be the ServerHello.
    FirstByte,
    /// The message is a HelloRetryRequest. The first byte may have been reported before.
    HelloRetry,
    /// The message is neither a ServerHello nor a HelloRetryRequest.
    Other,
}

/// Follows the server's CRYPTO stream until the ServerHello is known.
#[derive(Debug)]
pub(super) struct Finder {
    /// Boxed, and allocated only when needed: most ServerHellos are in one frame.
    stream: Option<Box<CryptoStream>>,
    /// Offset of the message looked at.
    start: u64,
    first_byte_seen: bool,
    done: bool,
}

impl Finder {
    pub(super) fn new() -> Finder {
        Finder {
            stream: None,
            start: 0,
            first_byte_seen: false,
            done: false,
        }
    }

    pub(super) fn crypto(&mut self, offset: u64, data: &[u8]) -> Found {
        if self.done {
            return Found::Nothing;
        }
        let covers_start = offset <= self.start && self.start - offset < data.len() as u64;
        let is_first = covers_start && !self.first_byte_seen;
        self.first_byte_seen |= covers_start;
        // Nearly every ServerHello is in one frame and needs no copy.
        if is_first && offset == self.start && hello_kind(data) == Ok(HelloKind::ServerHello) {
            self.finish();
            return Found::FirstByte;
        }
        // Bytes beyond the budget are not needed to tell the messages apart, or are unusable.
        let new = || Box::new(CryptoStream::new(BUDGET));
        let stream = self.stream.get_or_insert_with(new);
        let _ = stream.insert(offset, data);
        let known = usize::try_from(self.start)
            .ok()
            .and_then(|start| stream.contiguous().get(start..));
        let first = if is_first {
            Found::FirstByte
        } else {
            Found::Nothing
        };
        match hello_kind(known.unwrap_or_default()) {
            Err(Error::Truncated) => first,
            Ok(HelloKind::ServerHello) => {
                self.finish();
                first
            }
            Ok(HelloKind::HelloRetryRequest) => {
                let Some([_, length @ ..]) = known.and_then(|k| k.first_chunk::<HEADER>()) else {
                    return first;
                };
                let [a, b, c] = *length;
                self.start += HEADER as u64 + u64::from(u32::from_be_bytes([0, a, b, c]));
                self.first_byte_seen = false;
                Found::HelloRetry
            }
            Err(_) => {
                self.finish();
                Found::Other
            }
        }
    }

    fn finish(&mut self) {
        self.done = true;
        self.stream = None;
    }
}

#[cfg(test)]
mod tests;
