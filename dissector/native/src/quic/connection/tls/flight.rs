//! The server's messages under Handshake keys: EncryptedExtensions and its certificate.

use firstflight_wire::CryptoStream;
use firstflight_wire::tls::{EncryptedExtensions, certificate_chain_bytes, number, read_message};
use firstflight_wire::{Error, Reader};

use super::hello::text;

/// Maximum length of a server's handshake messages; a long certificate chain has 20 kB.
const BUDGET: usize = 131_072;

/// The fields read from the server's messages.
#[derive(Debug, Default)]
pub struct ServerFields {
    /// The application protocol chosen.
    pub alpn: Option<Box<str>>,
    /// Body of the transport parameters extension.
    pub transport_parameters: Option<Box<[u8]>>,
    /// Total size of the certificates in DER; `None` if unknown or compressed.
    pub certificate_bytes: Option<u64>,
    /// The Certificate or CompressedCertificate message with the header.
    pub certificate_message_bytes: Option<u64>,
}

/// The fields if no message was read.
pub(in crate::quic::connection) static NOTHING: ServerFields = ServerFields {
    alpn: None,
    transport_parameters: None,
    certificate_bytes: None,
    certificate_message_bytes: None,
};

/// A server's decrypted flight.
#[derive(Debug, Default)]
pub(in crate::quic::connection) struct ServerFlight {
    pub(in crate::quic::connection) reader: FlightReader,
    pub(in crate::quic::connection) fields: ServerFields,
}

impl ServerFlight {
    /// Processes CRYPTO data from a Handshake packet.
    pub(in crate::quic::connection) fn crypto(&mut self, offset: u64, data: &[u8]) {
        self.reader.crypto(offset, data, &mut self.fields);
    }
}

/// Reads the server's CRYPTO stream in Handshake packets.
#[derive(Debug)]
pub(in crate::quic::connection) struct FlightReader {
    stream: CryptoStream,
    /// Offset up to which messages were read.
    read: usize,
    is_over: bool,
}

impl Default for FlightReader {
    fn default() -> Self {
        FlightReader {
            stream: CryptoStream::new(BUDGET),
            read: 0,
            is_over: false,
        }
    }
}

impl FlightReader {
    /// Stops reading.
    pub(in crate::quic::connection) fn end(&mut self) {
        self.is_over = true;
        self.stream = CryptoStream::new(0);
    }

    /// Processes CRYPTO data and adds the fields of complete messages to `fields`.
    pub(in crate::quic::connection) fn crypto(
        &mut self,
        offset: u64,
        data: &[u8],
        fields: &mut ServerFields,
    ) {
        if self.is_over || self.stream.insert(offset, data) != Ok(true) {
            return;
        }
        loop {
            let rest = self.stream.contiguous().get(self.read..);
            let mut r = Reader::new(rest.unwrap_or_default());
            let before = r.len();
            match read_message(&mut r) {
                Ok((kind, body)) => {
                    message(kind, body, fields);
                    self.is_over |= kind == number::FINISHED;
                    self.read += before - r.len();
                }
                Err(Error::Truncated) => break,
                Err(_) => self.is_over = true,
            }
            if self.is_over {
                self.end();
                break;
            }
        }
    }
}

fn message(kind: u8, body: &[u8], fields: &mut ServerFields) {
    let size = body.len() as u64 + 4;
    match kind {
        number::ENCRYPTED_EXTENSIONS => {
            if let Ok(found) = EncryptedExtensions::parse(body) {
                fields.alpn = found.alpn.map(text);
                let parameters = found.transport_parameters;
                fields.transport_parameters = parameters.map(|p| p.as_bytes().into());
            }
        }
        number::CERTIFICATE => {
            fields.certificate_bytes = certificate_chain_bytes(body).ok();
            fields.certificate_message_bytes = Some(size);
        }
        number::COMPRESSED_CERTIFICATE => fields.certificate_message_bytes = Some(size),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
