//! What can be wrong with bytes, and with buffers that are to hold them.

use std::fmt;

/// Why bytes could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The input ends inside the element that was being read.
    Truncated,
    /// The input breaks a rule of its format; the text names the element.
    Malformed(&'static str),
    /// A frame of this type, whose length nobody knows here: what follows it cannot be read.
    UnknownFrame(u64),
    /// The output buffer is too small, or a value does not fit its field.
    NoRoom,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Truncated => f.write_str("input ends too early"),
            Error::Malformed(what) => write!(f, "malformed {what}"),
            Error::UnknownFrame(kind) => write!(f, "unknown frame type {kind:#x}"),
            Error::NoRoom => f.write_str("output does not fit its buffer or field"),
        }
    }
}

impl std::error::Error for Error {}

/// Why a protected packet could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Too short to hold a header protection sample (RFC 9001 5.4.2), or its place lies outside the datagram.
    TooShort,
    /// The packet does not authenticate under these keys.
    Unauthentic,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenError::TooShort => "packet too short to be opened",
            OpenError::Unauthentic => "packet does not authenticate",
        })
    }
}

impl std::error::Error for OpenError {}
