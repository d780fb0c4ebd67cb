//! Errors on a peer's stream.

use std::fmt;

/// Codes of RFC 9114 8.1 and RFC 9204 6. A client closes a connection or a stream with them.
pub mod code {
    pub const NO_ERROR: u64 = 0x100;
    /// For a second control, encoder or decoder stream. A reader of a single stream cannot detect it.
    pub const STREAM_CREATION_ERROR: u64 = 0x103;
    pub const CLOSED_CRITICAL_STREAM: u64 = 0x104;
    pub const FRAME_UNEXPECTED: u64 = 0x105;
    pub const FRAME_ERROR: u64 = 0x106;
    pub const EXCESSIVE_LOAD: u64 = 0x107;
    pub const ID_ERROR: u64 = 0x108;
    pub const SETTINGS_ERROR: u64 = 0x109;
    pub const MISSING_SETTINGS: u64 = 0x10a;
    pub const REQUEST_INCOMPLETE: u64 = 0x10d;
    pub const MESSAGE_ERROR: u64 = 0x10e;
    pub const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;
    pub const QPACK_ENCODER_STREAM_ERROR: u64 = 0x201;
}

/// A violation of HTTP/3 or of a local limit by the peer. After an error, a stream returns the same error for all
/// further input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http3Error {
    /// One of [`code`].
    pub code: u64,
    /// A short description.
    pub cause: &'static str,
}

impl Http3Error {
    pub(super) const fn new(code: u64, cause: &'static str) -> Self {
        Http3Error { code, cause }
    }

    /// A field section that QPACK cannot decode (RFC 9204 6).
    pub(super) const fn undecodable(cause: &'static str) -> Self {
        Http3Error::new(code::QPACK_DECOMPRESSION_FAILED, cause)
    }

    /// A malformed message (RFC 9114 4.1.2).
    pub(super) const fn message(cause: &'static str) -> Self {
        Http3Error::new(code::MESSAGE_ERROR, cause)
    }

    pub(super) const fn unexpected(cause: &'static str) -> Self {
        Http3Error::new(code::FRAME_UNEXPECTED, cause)
    }

    pub(super) const fn excessive(cause: &'static str) -> Self {
        Http3Error::new(code::EXCESSIVE_LOAD, cause)
    }
}

impl fmt::Display for Http3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause)
    }
}

impl std::error::Error for Http3Error {}
