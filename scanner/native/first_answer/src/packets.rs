//! Writes the datagrams: the Initial, the Initial with a token, and the close.

use firstflight_wire::tls::{ClientHelloTemplate, TemplateOptions};
use firstflight_wire::{
    ConnectionId, Error, LongHeader, Writer, build_packet, write_connection_close, write_crypto,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use crate::exchange::{Exchange, VERSION};

/// Size of the close (RFC 9000 14.1: a client's Initials fill 1200 bytes).
const CLOSE_SIZE: usize = 1200;
/// Room for a ClientHello with a name of 253 characters.
const HELLO_ROOM: usize = 1024;

/// Writes datagrams.
pub struct Packets {
    template: ClientHelloTemplate,
    contact: Vec<u8>,
    random: [u8; 32],
    destinations: ChaCha8Rng,
}

/// A ClientHello's random values. Each connection has a separate stream of ChaCha8, so that the ClientHello after
/// a Retry is the same without being stored.
struct Fresh {
    random: [u8; 32],
    key_share: [u8; 32],
}

impl Packets {
    /// Creates the writer. `contact` is the reason phrase of closes, and `random` is a secret of this run. Fails only
    /// if the template does not fit its buffer.
    pub fn new(contact: &str, random: [u8; 32]) -> Result<Self, Error> {
        let template = ClientHelloTemplate::new(&TemplateOptions::default())?;
        Ok(Packets {
            template,
            contact: contact.as_bytes().to_vec(),
            random,
            destinations: ChaCha8Rng::from_seed(random),
        })
    }

    /// Returns the SHA-256 of the ClientHello without the fields that differ between probes, in hexadecimal.
    pub fn template_hash(&self) -> Result<String, Error> {
        let digest = Sha256::digest(self.template.canonical()?);
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn fresh(&self, client_cid: [u8; 8]) -> Fresh {
        let mut stream = ChaCha8Rng::from_seed(self.random);
        // Stream 0 is for destination connection IDs.
        stream.set_stream(u64::from_be_bytes(client_cid).max(1));
        let mut fresh = Fresh {
            random: [0; 32],
            key_share: [0; 32],
        };
        stream.fill_bytes(&mut fresh.random);
        stream.fill_bytes(&mut fresh.key_share);
        fresh
    }

    /// Returns a random destination connection ID of 8 bytes.
    pub fn destination(&mut self) -> [u8; 8] {
        let mut dcid = [0; 8];
        self.destinations.fill_bytes(&mut dcid);
        dcid
    }

    /// Writes the Initial with the ClientHello, and with the token after a Retry. Returns the size.
    pub fn initial(
        &self,
        out: &mut [u8],
        exchange: &Exchange,
        sni: &str,
        size: u16,
    ) -> Result<usize, Error> {
        let mut room = [0; HELLO_ROOM];
        let mut hello = Writer::new(&mut room);
        let scid = ConnectionId::from(exchange.client_cid);
        let fresh = self.fresh(exchange.client_cid);
        self.template
            .write(&mut hello, &fresh.random, &fresh.key_share, sni, &scid)?;
        let header = LongHeader {
            token: exchange.token(),
            ..LongHeader::initial(VERSION, exchange.dcid, scid, exchange.hello_number)
        };
        let keys = exchange.client_keys();
        let length = build_packet(out, &header, &keys, Some(usize::from(size)), |w| {
            write_crypto(w, 0, hello.written())
        })?;
        if exchange.version != VERSION {
            // The packet protection of such a version is undefined. Servers read only the header (RFC 8999).
            out[1..5].copy_from_slice(&exchange.version.0.to_be_bytes());
        }
        Ok(length)
    }

    /// Writes the close and returns the size.
    pub fn close(&self, out: &mut [u8], exchange: &Exchange) -> Result<usize, Error> {
        let server = exchange.server_cid.unwrap_or(exchange.dcid);
        let scid = ConnectionId::from(exchange.client_cid);
        let header = LongHeader {
            token: exchange.token(),
            ..LongHeader::initial(VERSION, server, scid, exchange.hello_number + 1)
        };
        let keys = exchange.client_keys();
        build_packet(out, &header, &keys, Some(CLOSE_SIZE), |w| {
            write_connection_close(w, 0, 0, &self.contact)
        })
    }
}

#[cfg(test)]
mod tests;
