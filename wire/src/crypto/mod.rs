//! Packet protection (RFC 9001 5, 6): keys from the client's destination connection ID or from TLS traffic
//! secrets, header protection, packet numbers, key updates, the Retry integrity tag.

mod cache;
mod hmac;
mod keys;
mod material;
mod padding;
mod pn;
mod retry;
mod secrets;
mod traffic;

pub use cache::KeyCache;
pub use keys::{Keys, Opened, Seal};
pub use material::{CipherSuite, KeyMaterial, SuiteMaterial};
pub use padding::SAMPLE_END;
pub use pn::decode_packet_number;
pub use retry::{retry_is_intact, write_retry};
pub use secrets::InitialSecret;
pub use traffic::{OneRttKeys, TrafficSecret};

/// Number of bytes that each supported AEAD adds to a packet.
pub const TAG_LEN: usize = 16;
