//! Packet protection (RFC 9001 5, 6): keys from the client's destination connection ID or from TLS traffic secrets, header
//! protection, packet numbers, key updates, the Retry integrity tag.

mod hmac;
mod keys;
mod pn;
mod retry;
mod secrets;
mod traffic;

pub use keys::{Keys, Opened};
pub use pn::decode_packet_number;
pub use retry::{retry_is_intact, write_retry};
pub use secrets::{InitialSecret, KeyMaterial};
pub use traffic::{CipherSuite, OneRttKeys, TrafficSecret};

/// Bytes that every AEAD in use adds to a packet.
pub const TAG_LEN: usize = 16;
