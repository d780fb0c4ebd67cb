//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) for a client with a single request, with the static table only.
//!
//! | module | |
//! | --- | --- |
//! | `error` | errors, with the codes of RFC 9114 8.1 |
//! | `huffman`, `prefixed`, `static_table` | the parts of QPACK: strings, integers, known fields |
//! | `field_lines` | reads and writes field sections |
//! | `fields` | stores a field section |
//! | `frames` | reads the frames in a stream that arrives in pieces |
//! | `request` | writes the client's control stream and request |
//! | `response` | reads the server's side of the request stream |
//! | `settings`, `uni_stream` | read the server's unidirectional streams |
//!
//! Readers take a stream's bytes in order, in pieces of any size, and hold no more than their limit allows.
//!
//! ```
//! # use firstflight_wire::{Error, Writer, http3::*};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut request = [0; 200];
//! let mut w = Writer::new(&mut request);
//! let head = [(":method", "HEAD"), (":scheme", "https"), (":authority", "example.net"), (":path", "/")];
//! write_request(&mut w, &head)?;
//!
//! let mut response = ResponseStream::new(16_384);
//! response.push(&[0x01, 0x03, 0x00, 0x00, 0xd9])?;
//! response.finish()?;
//! assert_eq!(response.response().map(|response| response.status), Some(200));
//! # Ok(()) }
//! ```

mod error;
mod field_lines;
mod fields;
mod frames;
mod huffman;
mod prefixed;
mod request;
mod response;
mod settings;
mod static_table;
mod uni_stream;

pub use error::{Http3Error, code};
pub use fields::FieldSection;
pub use request::{write_control_stream, write_request};
pub use response::{Response, ResponseStream};
pub use settings::setting;
pub use uni_stream::{UniKind, UniStream};

/// Types of frames (RFC 9114 7.2 and 11.2.1).
mod frame_type {
    pub const DATA: u64 = 0x00;
    pub const HEADERS: u64 = 0x01;
    pub const CANCEL_PUSH: u64 = 0x03;
    pub const SETTINGS: u64 = 0x04;
    pub const PUSH_PROMISE: u64 = 0x05;
    pub const GOAWAY: u64 = 0x07;
    pub const MAX_PUSH_ID: u64 = 0x0d;
    /// Reserved frame types of HTTP/2, an error on any stream.
    pub const OF_HTTP2: [u64; 4] = [0x02, 0x06, 0x08, 0x09];
}
