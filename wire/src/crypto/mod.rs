//! Protection of Initial packets (RFC 9001 5): keys from the client's destination connection ID, header
//! protection, packet numbers, AES-128-GCM, the Retry integrity tag.

mod keys;
mod pn;
mod retry;
mod secrets;
mod sha256;

pub use keys::{Keys, Opened};
pub use pn::decode_packet_number;
pub use retry::{retry_is_intact, write_retry};
pub use secrets::{InitialSecret, KeyMaterial};

/// Bytes that AES-128-GCM adds to a packet.
pub const TAG_LEN: usize = 16;
