//! Datagrams of a connection, made for tests, and a table that they are fed to.

use std::net::SocketAddr;

use firstflight_wire::tls::{ClientHelloTemplate, TemplateOptions, write_server_hello};
use firstflight_wire::{
    CipherSuite, ConnectionId, InitialSecret, Keys, LongHeader, PacketType, TAG_LEN, TrafficSecret,
    Version, Writer, build_packet, write_ack, write_connection_close, write_crypto, write_ping,
    write_retry,
};

use super::{Arrival, Connection, Limits, Table};
use crate::flow::expiry::Bounds;
use crate::net::ip::{Datagram, IpLength};
use crate::quic::keylog::Keyring;
use crate::quic::timeline::Windows;

pub(crate) const MS: i64 = 1_000_000;
/// The client's random, by which its keys are found.
const RANDOM: u8 = 5;
pub(crate) const ODCID: [u8; 8] = [1; 8];
pub(crate) const CLIENT: [u8; 8] = [2; 8];
pub(crate) const SERVER: [u8; 8] = [3; 8];
pub(crate) const RETRY: [u8; 8] = [4; 8];

/// Frames of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum F {
    /// ACK of the packets from the second number to the first.
    Ack(u64, u64),
    /// A whole ClientHello.
    ClientHello,
    /// So many bytes of a ServerHello, from its beginning.
    ServerHello(usize),
    Ping,
    Close(u64),
    /// Bytes of stream 0 at an offset.
    Stream(u64, usize),
    /// NEW_CONNECTION_ID with this connection ID.
    NewCid([u8; 8]),
    /// A type that does not exist.
    Unknown,
}

/// A packet of either side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct P<'a> {
    pub kind: PacketType,
    pub number: u64,
    pub frames: &'a [F],
}

pub(crate) const fn initial(number: u64, frames: &[F]) -> P<'_> {
    P {
        kind: PacketType::Initial,
        number,
        frames,
    }
}

pub(crate) const fn handshake(number: u64, frames: &[F]) -> P<'_> {
    P {
        kind: PacketType::Handshake,
        number,
        frames,
    }
}

pub(crate) const fn one_rtt(number: u64, frames: &[F]) -> P<'_> {
    P {
        kind: PacketType::OneRtt,
        number,
        frames,
    }
}

fn written(size: usize, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = vec![0; size];
    let mut w = Writer::new(&mut out);
    write(&mut w);
    w.written().to_vec()
}

fn client_hello() -> Vec<u8> {
    let template = ClientHelloTemplate::new(&TemplateOptions::default()).unwrap();
    written(600, |w| {
        let (random, share, cid) = ([RANDOM; 32], [6; 32], ConnectionId::from(CLIENT));
        template
            .write(w, &random, &share, "www.example.net", &cid)
            .unwrap();
    })
}

fn server_hello() -> Vec<u8> {
    written(200, |w| {
        write_server_hello(w, &[7; 32], &[], 0x1301, 29, &[8; 32]).unwrap()
    })
}

fn write_frame(w: &mut Writer<'_>, frame: F) {
    match frame {
        F::Ack(largest, smallest) => write_ack(w, largest, 25, &[(largest, smallest)]),
        F::ClientHello => write_crypto(w, 0, &client_hello()),
        F::ServerHello(bytes) => {
            let hello = server_hello();
            write_crypto(w, 0, &hello[..bytes.min(hello.len())])
        }
        F::Ping => write_ping(w),
        F::Close(code) => write_connection_close(w, code, 0, b"reason"),
        F::Stream(offset, bytes) => w
            .bytes(&[0x0e, 0])
            .and_then(|()| w.varint(offset))
            .and_then(|()| w.varint(bytes as u64))
            .and_then(|()| w.bytes(&vec![9; bytes])),
        F::NewCid(cid) => w
            .bytes(&[0x18, 1, 0, 8])
            .and_then(|()| w.bytes(&cid))
            .and_then(|()| w.bytes(&[0; 16])),
        F::Unknown => w.bytes(&[0x3f]),
    }
    .unwrap();
}

/// A key log with the secrets that packets are sealed with here.
pub(crate) fn key_log() -> String {
    let hex = |byte: u8| format!("{byte:02x}").repeat(32);
    let line = |label: &str, secret| format!("{label} {} {}\n", hex(RANDOM), hex(secret));
    [
        ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 0x10),
        ("SERVER_HANDSHAKE_TRAFFIC_SECRET", 0x11),
        ("CLIENT_TRAFFIC_SECRET_0", 0x12),
        ("SERVER_TRAFFIC_SECRET_0", 0x13),
    ]
    .map(|(label, secret)| line(label, secret))
    .concat()
}

fn traffic(secret: u8) -> Keys {
    let suite = CipherSuite::Aes128GcmSha256;
    TrafficSecret::new(Version::V1, suite, &[secret; 32])
        .unwrap()
        .keys()
}

/// A datagram with `packets`. The client sends Initials to `odcid`, from which their keys come, with `token`.
pub(crate) fn datagram(
    from_client: bool,
    odcid: [u8; 8],
    token: &[u8],
    packets: &[P<'_>],
) -> Vec<u8> {
    let initial = InitialSecret::new(Version::V1, &odcid.into()).unwrap();
    let mut all = Vec::new();
    for packet in packets {
        let is_initial = packet.kind == PacketType::Initial;
        let side = u8::from(!from_client);
        let keys = match packet.kind {
            PacketType::Initial if from_client => Keys::new(&initial.client()),
            PacketType::Initial => Keys::new(&initial.server()),
            PacketType::Handshake => traffic(0x10 + side),
            _ => traffic(0x12 + side),
        };
        let to = match (from_client, is_initial) {
            (true, true) => odcid,
            (true, false) => SERVER,
            (false, _) => CLIENT,
        };
        let from = if from_client { CLIENT } else { SERVER };
        let mut out = [0; 1500];
        let size = if packet.kind == PacketType::OneRtt {
            let body = written(1400, |w| {
                w.bytes(&[0x43]).unwrap();
                w.bytes(&to).unwrap();
                w.u32(packet.number as u32).unwrap();
                packet
                    .frames
                    .iter()
                    .for_each(|frame| write_frame(w, *frame));
                w.zeros(TAG_LEN).unwrap();
            });
            out[..body.len()].copy_from_slice(&body);
            keys.seal(&mut out[..body.len()], 9, 4, packet.number)
                .unwrap();
            body.len()
        } else {
            let mut header =
                LongHeader::initial(Version::V1, to.into(), from.into(), packet.number);
            header.kind = packet.kind;
            header.token = if is_initial && from_client {
                token
            } else {
                &[]
            };
            let pad_to = (is_initial && from_client).then_some(1200);
            let frames = |w: &mut Writer<'_>| {
                packet
                    .frames
                    .iter()
                    .for_each(|frame| write_frame(w, *frame));
                Ok(())
            };
            build_packet(&mut out, &header, &keys, pad_to, frames).unwrap()
        };
        all.extend_from_slice(&out[..size]);
    }
    all
}

/// A Retry that answers the first Initial.
pub(crate) fn retry() -> Vec<u8> {
    let mut out = [0; 200];
    let [odcid, to, from] = [ODCID, CLIENT, RETRY].map(ConnectionId::from);
    let size = write_retry(&mut out, Version::V1, &odcid, &to, &from, b"token", 0).unwrap();
    out[..size].to_vec()
}

/// A table with one client and one server.
pub(crate) struct Feed {
    pub table: Table,
    pub client: SocketAddr,
    pub server: SocketAddr,
    frames: u64,
}

impl Feed {
    pub(crate) fn new(keys: &str) -> Feed {
        Feed::with(keys, 8, Vec::new())
    }

    pub(crate) fn with(keys: &str, max_live: usize, ports: Vec<u16>) -> Feed {
        let mut keyring = Keyring::default();
        if !keys.is_empty() {
            keyring.add(keys.as_bytes());
        }
        let limits = Limits {
            windows: Windows {
                answer_ns: 3_000 * MS,
                settle_ns: 100 * MS,
            },
            bounds: Bounds {
                idle_ns: 60_000 * MS,
                closing_ns: 10_000 * MS,
                max_live,
            },
            ports,
        };
        Feed {
            table: Table::new(limits, keyring),
            client: SocketAddr::from(([192, 0, 2, 1], 50_000)),
            server: SocketAddr::from(([198, 51, 100, 1], 443)),
            frames: 0,
        }
    }

    /// Feeds a datagram of which `captured` bytes were captured; returns its connection and whether the
    /// client sent it.
    pub(crate) fn cut(
        &mut self,
        ms: i64,
        from_client: bool,
        bytes: &[u8],
        captured: usize,
    ) -> Option<(&Connection, bool)> {
        self.frames += 1;
        let (src, dst) = if from_client {
            (self.client, self.server)
        } else {
            (self.server, self.client)
        };
        let ip_length = IpLength {
            bytes: bytes.len() + 28,
            is_guessed: false,
        };
        let arrival = Arrival {
            ns: ms * MS,
            frame_number: self.frames,
            length: bytes.len(),
            ip_length,
            ttl: if from_client { 64 } else { 57 },
        };
        let datagram = Datagram {
            src,
            dst,
            ttl: arrival.ttl,
            payload: &bytes[..captured.min(bytes.len())],
            length: bytes.len(),
            ip_length,
        };
        self.table.datagram(&arrival, &datagram, None)
    }

    /// The same of a whole datagram.
    pub(crate) fn bytes(
        &mut self,
        ms: i64,
        from_client: bool,
        bytes: &[u8],
    ) -> Option<(&Connection, bool)> {
        self.cut(ms, from_client, bytes, usize::MAX)
    }

    /// The same of a datagram with `packets`.
    pub(crate) fn packets(
        &mut self,
        ms: i64,
        from_client: bool,
        packets: &[P<'_>],
    ) -> Option<(&Connection, bool)> {
        self.bytes(ms, from_client, &datagram(from_client, ODCID, &[], packets))
    }

    /// The only connection that is left.
    pub(crate) fn one(&mut self) -> Box<Connection> {
        let one = self.table.drain().expect("a connection");
        assert!(self.table.drain().is_none(), "one connection only");
        one
    }
}
