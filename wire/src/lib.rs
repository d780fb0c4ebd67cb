//! Encodes and parses QUIC and TLS first flights, HTTP/3 and TCP headers. No I/O, no clock.
//!
//! No function panics on any input, or allocates memory by a length field of the input.
//!
//! Receiving: [`parse_packet`] (or [`Packets`]) finds a datagram's packets. [`InitialSecret`] and [`Keys`]
//! open an Initial in place. [`Frames`] reads the payload, [`tls`] the TLS handshake messages, and [`CryptoStream`]
//! reassembles CRYPTO data. [`http3`] writes a request and reads the response.
//!
//! ```
//! # use firstflight_wire::*;
//! # fn receive(datagram: &mut [u8], odcid: ConnectionId) -> Result<(), Box<dyn std::error::Error>> {
//! let secret = InitialSecret::new(Version::V1, &odcid).ok_or("version")?;
//! let keys = Keys::new(&secret.server());
//! let (mut at, mut largest) = (0, None);
//! while at < datagram.len() {
//!     let packet = parse_packet(datagram, at, 8)?;
//!     at = packet.end;
//!     if packet.kind == PacketType::Initial {
//!         let opened = keys.open(datagram, &packet, largest)?;
//!         largest = largest.max(Some(opened.packet_number));
//!         for frame in Frames::new(opened.payload) {
//!             if let Frame::Ack(ack) = frame? { println!("acknowledges 0: {}", ack.contains(0)) }
//!         }
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! Sending: [`tls::ClientHelloTemplate`] writes the ClientHello, and [`build_packet`] writes an Initial with it.
//!
//! ```
//! # use firstflight_wire::*;
//! # fn main() -> Result<(), Error> {
//! let template = tls::ClientHelloTemplate::new(&tls::TemplateOptions::default())?;
//! let (dcid, scid) = (ConnectionId::from([1; 8]), ConnectionId::from([2; 8]));
//! let secret = InitialSecret::new(Version::V1, &dcid).ok_or(Error::Malformed("version"))?;
//! let keys = Keys::new(&secret.client());
//! let (mut hello, mut datagram) = ([0; 600], [0; 1500]);
//! let mut w = Writer::new(&mut hello);
//! template.write(&mut w, &[7; 32], &[8; 32], "www.example.net", &scid)?;
//! let header = LongHeader::initial(Version::V1, dcid, scid, 0);
//! let size = build_packet(&mut datagram, &header, &keys, Some(1252), |p| write_crypto(p, 0, w.written()))?;
//! assert_eq!(size, 1252);
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]

mod bare;
mod buf;
mod build;
mod cid;
mod crypto;
mod error;
mod frame;
pub mod http3;
mod packet;
mod reassembly;
mod skim;
pub mod tcp;
pub mod tls;
pub mod transport;
mod version;

pub use bare::parse_bare_header;
pub use buf::{Reader, VARINT_MAX, Writer, varint_len};
pub use build::{LongHeader, ShortHeader, build_packet, build_short_packet};
pub use cid::{ConnectionId, MAX_CID_LEN};
pub use crypto::{
    CipherSuite, InitialSecret, KeyCache, KeyMaterial, Keys, OneRttKeys, Opened, SAMPLE_END, Seal,
    SuiteMaterial, TAG_LEN, TrafficSecret, decode_packet_number, retry_is_intact, write_retry,
};
pub use error::{Error, OpenError};
pub use frame::{
    Ack, AckRanges, Frame, Frames, write_ack, write_application_close, write_connection_close,
    write_crypto, write_path_response, write_ping, write_retire_connection_id, write_stream,
};
pub use packet::{
    Packet, PacketType, Packets, parse_cut_header, parse_greased_packet, parse_packet,
    write_version_negotiation,
};
pub use reassembly::{CryptoStream, Full};
pub use skim::{Skimmed, skim};
pub use version::Version;

#[cfg(test)]
mod testing {
    /// Parses hex digits; skips white space.
    pub fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .chars()
            .filter_map(|c| c.to_digit(16))
            .map(|d| d as u8)
            .collect();
        assert!(digits.len().is_multiple_of(2));
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }
}
