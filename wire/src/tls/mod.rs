//! The TLS 1.3 handshake messages in a first flight (RFC 8446 4) in CRYPTO frames.

mod client_hello;
mod ech;
mod server_flight;
mod server_hello;
mod template;

pub use client_hello::ClientHello;
pub use ech::{EchConfig, ascii, ech_configs};
pub use server_flight::{EncryptedExtensions, certificate_chain_bytes};
pub use server_hello::{
    HelloKind, ServerHello, hello_kind, write_hello_retry_request, write_server_hello,
};
pub use template::{ClientHelloTemplate, TemplateOptions};

use crate::{Error, Reader};

/// Numbers from RFC 8446 and the IANA TLS registries.
pub mod number {
    pub const CLIENT_HELLO: u8 = 1;
    pub const SERVER_HELLO: u8 = 2;
    pub const ENCRYPTED_EXTENSIONS: u8 = 8;
    pub const CERTIFICATE: u8 = 11;
    pub const FINISHED: u8 = 20;
    pub const COMPRESSED_CERTIFICATE: u8 = 25;

    pub const SERVER_NAME: u16 = 0;
    pub const SUPPORTED_GROUPS: u16 = 10;
    pub const SIGNATURE_ALGORITHMS: u16 = 13;
    pub const ALPN: u16 = 16;
    pub const SUPPORTED_VERSIONS: u16 = 43;
    pub const COOKIE: u16 = 44;
    pub const PSK_KEY_EXCHANGE_MODES: u16 = 45;
    pub const KEY_SHARE: u16 = 51;
    pub const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
    pub const QUIC_TRANSPORT_PARAMETERS: u16 = 57;
    /// For QUIC drafts up to 32.
    pub const QUIC_TRANSPORT_PARAMETERS_DRAFT: u16 = 0xffa5;

    pub const TLS_AES_128_GCM_SHA256: u16 = 0x1301;
    pub const TLS_AES_256_GCM_SHA384: u16 = 0x1302;
    pub const TLS_CHACHA20_POLY1305_SHA256: u16 = 0x1303;

    pub const SECP256R1: u16 = 0x17;
    pub const SECP384R1: u16 = 0x18;
    pub const SECP521R1: u16 = 0x19;
    pub const X25519: u16 = 0x1d;
}

/// Reads a handshake message's type and body from the front. Returns [`Error::Truncated`] until the message
/// is complete.
pub fn read_message<'a>(r: &mut Reader<'a>) -> Result<(u8, &'a [u8]), Error> {
    let mut ahead = *r;
    let kind = ahead.u8()?;
    let length = ahead.u24()? as usize;
    let body = ahead.bytes(length)?;
    *r = ahead;
    Ok((kind, body))
}

/// Calls `visit` with type and body of each extension in the list at the front of `r`.
fn each_extension<'a>(
    r: &mut Reader<'a>,
    mut visit: impl FnMut(u16, &'a [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut list = Reader::new(r.vec16()?);
    while !list.is_empty() {
        let kind = list.u16()?;
        visit(kind, list.vec16()?)?;
    }
    Ok(())
}
