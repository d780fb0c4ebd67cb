//! One client's decrypted Initial, and the packets that can answer it.

use firstflight_wire::tls::{self, ClientHello, read_message, write_server_hello};
use firstflight_wire::{
    ConnectionId, Error, Frame, Frames, InitialSecret, KeyMaterial, Keys, LongHeader, PacketType,
    Reader, Version, Writer, parse_packet, write_ack, write_crypto,
};
use std::time::{Duration, Instant};

/// A padded datagram's size.
pub const FULL: usize = 1200;
const SERVER_CID_BYTES: usize = 8;

/// The contents in a client's Initial, with the keys to answer it.
pub struct Session {
    pub version: Version,
    /// The destination connection ID of the answered Initial. The keys are derived from it.
    pub odcid: ConnectionId,
    /// The client's connection ID.
    pub client_cid: ConnectionId,
    /// This server's connection ID.
    pub server_cid: ConnectionId,
    pub token: Vec<u8>,
    pub client_number: u64,
    pub sni: Option<String>,
    pub arrived: Instant,
    pub keys: Keys,
}

impl Session {
    /// Decrypts a client's first Initial with ClientHello bytes; `None` for every other datagram.
    pub fn open(datagram: &mut [u8], arrived: Instant) -> Option<Self> {
        let packet = parse_packet(datagram, 0, 0).ok()?;
        if packet.kind != PacketType::Initial || datagram.len() < FULL {
            return None;
        }
        let secret = InitialSecret::new(packet.version, &packet.dcid)?;
        let token = packet.token(datagram).to_vec();
        let opened = Keys::new(&secret.client())
            .open(datagram, &packet, None)
            .ok()?;
        let hello = Frames::new(opened.payload).find_map(|frame| match frame {
            Ok(Frame::Crypto { offset: 0, data }) => Some(data),
            _ => None,
        })?;
        Some(Self {
            version: packet.version,
            odcid: packet.dcid,
            client_cid: packet.scid,
            server_cid: ConnectionId::new(&random::<SERVER_CID_BYTES>()).ok()?,
            token,
            client_number: opened.packet_number,
            sni: sni(hello),
            arrived,
            keys: Keys::new(&secret.server()),
        })
    }

    fn header(&self, kind: PacketType, packet_number: u64) -> LongHeader<'static> {
        let mut header = LongHeader::initial(
            self.version,
            self.client_cid,
            self.server_cid,
            packet_number,
        );
        header.kind = kind;
        header
    }

    /// Returns an Initial that authenticates, of `pad_to` bytes if given.
    pub fn initial(
        &self,
        packet_number: u64,
        pad_to: Option<usize>,
        frames: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
    ) -> Result<Vec<u8>, Error> {
        self.initial_with(&self.keys, self.client_cid, packet_number, pad_to, frames)
    }

    /// Returns an Initial under any keys, to any connection ID.
    pub fn initial_with(
        &self,
        keys: &Keys,
        to: ConnectionId,
        packet_number: u64,
        pad_to: Option<usize>,
        frames: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
    ) -> Result<Vec<u8>, Error> {
        let mut header = self.header(PacketType::Initial, packet_number);
        header.dcid = to;
        build(&header, keys, pad_to, frames)
    }

    /// Appends a Handshake packet that fills the datagram up to `FULL` bytes. Its keys are random: with only
    /// Initial keys the difference cannot be observed.
    pub fn fill_with_handshake(&self, mut datagram: Vec<u8>) -> Result<Vec<u8>, Error> {
        let keys = Keys::new(&KeyMaterial {
            key: random(),
            iv: random(),
            hp: random(),
        });
        let header = self.header(PacketType::Handshake, 0);
        let contents = random::<64>();
        let packet = build(
            &header,
            &keys,
            Some(FULL.saturating_sub(datagram.len())),
            |w| write_crypto(w, 0, &contents),
        )?;
        datagram.extend(packet);
        Ok(datagram)
    }

    /// Returns an ACK frame of the client's Initial, to be sent `after` the first datagram.
    pub fn ack(&self, w: &mut Writer<'_>, after: Duration) -> Result<(), Error> {
        let number = self.client_number;
        write_ack(w, number, self.ack_delay(after), &[(number, number)])
    }

    /// Returns the ACK Delay field at the default exponent (RFC 9000, 18.2: units of 8 us).
    pub fn ack_delay(&self, after: Duration) -> u64 {
        ((self.arrived.elapsed() + after).as_micros() >> 3) as u64
    }

    /// Returns a CRYPTO frame with a ServerHello. Its key share has no known secret.
    pub fn server_hello(&self, w: &mut Writer<'_>) -> Result<(), Error> {
        let mut message = [0_u8; 256];
        let mut hello = Writer::new(&mut message);
        let suite = tls::number::TLS_AES_128_GCM_SHA256;
        write_server_hello(
            &mut hello,
            &random(),
            &[],
            suite,
            tls::number::X25519,
            &random::<32>(),
        )?;
        write_crypto(w, 0, hello.written())
    }
}

fn build(
    header: &LongHeader<'_>,
    keys: &Keys,
    pad_to: Option<usize>,
    frames: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let mut out = vec![0_u8; 1500];
    let size = firstflight_wire::build_packet(&mut out, header, keys, pad_to, frames)?;
    out.truncate(size);
    Ok(out)
}

/// Returns the SNI in a complete ClientHello, or `None` without an SNI.
fn sni(hello: &[u8]) -> Option<String> {
    let (kind, body) = read_message(&mut Reader::new(hello)).ok()?;
    if kind != tls::number::CLIENT_HELLO {
        return None;
    }
    let name = ClientHello::parse(body).ok()?.sni?;
    String::from_utf8(name.to_vec()).ok()
}

/// Returns random bytes of the system. Exits without them, because all packets would be alike.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0_u8; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        eprintln!("firstflight-rogue: the system provides no random numbers: {error}.");
        std::process::exit(1);
    }
    bytes
}
