//! Errors of reading and writing bytes.

use std::fmt;

/// An error of reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The input is too short for an element.
    Truncated,
    /// The input violates the format; the text names the element.
    Malformed(&'static str),
    /// A frame of an unknown type. The length is unknown, so the frames after it cannot be read.
    UnknownFrame(u64),
    /// The output buffer is too small, or a value does not fit the field.
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

/// An error of opening a protected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The packet is too short for a header protection sample (RFC 9001 5.4.2), or lies outside the datagram.
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
