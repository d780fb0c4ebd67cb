//! Validly encrypted packets with arbitrary frames.

use firstflight_wire::tls::{ClientHelloTemplate, TemplateOptions};
use firstflight_wire::{
    CipherSuite, ConnectionId, InitialSecret, Keys, LongHeader, PacketType, TrafficSecret, Version,
    Writer, build_packet, write_crypto,
};

/// The client's random, which identifies the keys.
const RANDOM: [u8; 32] = [5; 32];
const TAG: usize = 16;

/// Types of packets that can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Initial,
    Handshake,
    OneRtt,
}

/// Both sides of a connection in QUIC version 1.
pub struct Sealer {
    odcid: ConnectionId,
    client: ConnectionId,
    server: ConnectionId,
    initial: InitialSecret,
    numbers: [u64; 6],
}

impl Sealer {
    pub fn new() -> Option<Sealer> {
        let odcid = Sealer::origin();
        Some(Sealer {
            odcid,
            client: ConnectionId::from([2; 8]),
            server: ConnectionId::from([3; 8]),
            initial: InitialSecret::new(Version::V1, &odcid)?,
            numbers: [0; 6],
        })
    }

    /// The connection ID that the Initial keys are derived from.
    pub fn origin() -> ConnectionId {
        ConnectionId::from([1; 8])
    }

    /// The key log of the connection.
    pub fn key_log() -> String {
        let hex = |byte: u8| format!("{byte:02x}").repeat(32);
        let line = |label: &str, n: u8| format!("{label} {} {}\n", hex(RANDOM[0]), hex(n));
        [
            ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 0x10),
            ("SERVER_HANDSHAKE_TRAFFIC_SECRET", 0x11),
            ("CLIENT_TRAFFIC_SECRET_0", 0x12),
            ("SERVER_TRAFFIC_SECRET_0", 0x13),
        ]
        .map(|(label, n)| line(label, n))
        .concat()
    }

    /// The datagram with the client's first Initial.
    pub fn hello(&mut self) -> Vec<u8> {
        let mut message = [0; 600];
        let mut w = Writer::new(&mut message);
        let template = ClientHelloTemplate::new(&TemplateOptions::default());
        let written = template
            .and_then(|t| t.write(&mut w, &RANDOM, &[6; 32], "www.example.net", &self.client));
        assert!(written.is_ok(), "the template fits 600 bytes");
        let mut frame = [0; 700];
        let mut out = Writer::new(&mut frame);
        assert!(write_crypto(&mut out, 0, w.written()).is_ok());
        self.packet(true, Kind::Initial, 0, out.written())
    }

    /// A packet with the frames `payload`, after `gap` skipped packet numbers.
    pub fn packet(&mut self, from_client: bool, kind: Kind, gap: u64, payload: &[u8]) -> Vec<u8> {
        let side = usize::from(!from_client);
        let counter = &mut self.numbers[kind as usize * 2 + side];
        let number = *counter + gap;
        *counter = number + 1;
        let keys = match kind {
            Kind::Initial if from_client => Keys::new(&self.initial.client()),
            Kind::Initial => Keys::new(&self.initial.server()),
            Kind::Handshake => traffic([0x10, 0x11][side]),
            Kind::OneRtt => traffic([0x12, 0x13][side]),
        };
        let (to, from) = if from_client {
            let to = if kind == Kind::Initial {
                self.odcid
            } else {
                self.server
            };
            (to, self.client)
        } else {
            (self.client, self.server)
        };
        let mut out = [0; 1500];
        let size = if kind == Kind::OneRtt {
            short(&mut out, &to, number, &keys, payload)
        } else {
            let mut header = LongHeader::initial(Version::V1, to, from, number);
            header.pn_len = 4;
            if kind == Kind::Handshake {
                header.kind = PacketType::Handshake;
            }
            build_packet(&mut out, &header, &keys, None, |w| w.bytes(payload)).ok()
        };
        out[..size.unwrap_or(0)].to_vec()
    }
}

fn traffic(secret: u8) -> Keys {
    let secret = TrafficSecret::new(Version::V1, CipherSuite::Aes128GcmSha256, &[secret; 32]);
    secret.expect("32 bytes suit the suite").keys()
}

fn short(
    out: &mut [u8],
    to: &ConnectionId,
    number: u64,
    keys: &Keys,
    payload: &[u8],
) -> Option<usize> {
    let size = {
        let mut w = Writer::new(out);
        w.bytes(&[0x43]).ok()?;
        w.bytes(to.as_slice()).ok()?;
        w.bytes(&number.to_be_bytes()[4..]).ok()?;
        w.bytes(payload).ok()?;
        w.zeros(TAG).ok()?;
        w.position()
    };
    let pn_offset = 1 + to.len();
    keys.seal(out.get_mut(..size)?, pn_offset, 4, number).ok()?;
    Some(size)
}
