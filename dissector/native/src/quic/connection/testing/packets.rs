//! A connection's test packets.

use firstflight_wire::tls::{
    ClientHelloTemplate, TemplateOptions, write_hello_retry_request, write_server_hello,
};
use firstflight_wire::transport::TransportParameters;
use firstflight_wire::{
    CipherSuite, ConnectionId, InitialSecret, Keys, LongHeader, PacketType, TAG_LEN, TrafficSecret,
    Version, Writer, build_packet, parse_packet, write_ack, write_connection_close, write_crypto,
    write_ping, write_retry, write_version_negotiation,
};

/// The client's random, which identifies the keys.
pub(crate) const RANDOM: u8 = 5;
pub(crate) const ODCID: [u8; 8] = [1; 8];
pub(crate) const CLIENT: [u8; 8] = [2; 8];
pub(crate) const SERVER: [u8; 8] = [3; 8];
pub(crate) const RETRY: [u8; 8] = [4; 8];
/// HANDSHAKE_DONE.
pub(crate) const HANDSHAKE_DONE: F = F::Raw(&[0x1e]);

/// Secrets, given by the byte that they repeat.
pub(crate) const CLIENT_HANDSHAKE: u8 = 0x10;
pub(crate) const SERVER_HANDSHAKE: u8 = 0x11;
pub(crate) const CLIENT_ONE_RTT: u8 = 0x12;
pub(crate) const SERVER_ONE_RTT: u8 = 0x13;
pub(crate) const CLIENT_EARLY: u8 = 0x14;

/// A packet's frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum F {
    /// ACK of the packets from the second number to the first.
    Ack(u64, u64),
    /// A whole ClientHello.
    ClientHello,
    /// A ServerHello's first bytes.
    ServerHello(usize),
    /// CRYPTO bytes at an offset.
    Crypto(u64, &'static [u8]),
    Ping,
    Close(u64),
    /// Bytes of stream 0 at an offset.
    Stream(u64, usize),
    /// NEW_CONNECTION_ID with this connection ID.
    NewCid([u8; 8]),
    /// An undefined type.
    Unknown,
    /// A frame as it is on the wire.
    Raw(&'static [u8]),
}

/// A packet of either side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct P<'a> {
    pub kind: PacketType,
    pub number: u64,
    pub frames: &'a [F],
}

const fn packet(kind: PacketType, number: u64, frames: &[F]) -> P<'_> {
    P {
        kind,
        number,
        frames,
    }
}

pub(crate) const fn initial(number: u64, frames: &[F]) -> P<'_> {
    packet(PacketType::Initial, number, frames)
}

pub(crate) const fn zero_rtt(number: u64, frames: &[F]) -> P<'_> {
    packet(PacketType::ZeroRtt, number, frames)
}

pub(crate) const fn handshake(number: u64, frames: &[F]) -> P<'_> {
    packet(PacketType::Handshake, number, frames)
}

pub(crate) const fn one_rtt(number: u64, frames: &[F]) -> P<'_> {
    packet(PacketType::OneRtt, number, frames)
}

/// The bytes that `write` writes, with a static lifetime.
pub(crate) fn written(write: impl FnOnce(&mut Writer<'_>)) -> &'static [u8] {
    let mut out = vec![0; 1 << 17];
    let mut w = Writer::new(&mut out);
    write(&mut w);
    w.written().to_vec().leak()
}

pub(crate) fn client_hello(random: u8, sni: &str) -> &'static [u8] {
    let template = ClientHelloTemplate::new(&TemplateOptions::default()).unwrap();
    let cid = ConnectionId::from(CLIENT);
    written(|w| {
        template
            .write(w, &[random; 32], &[6; 32], sni, &cid)
            .unwrap();
    })
}

/// A ClientHello with `grease_quic_bit` as the first transport parameter.
pub(crate) fn client_hello_with_grease(random: u8, sni: &str) -> &'static [u8] {
    const PARAMETER: [u8; 3] = [0x6a, 0xb2, 0];
    let mut hello = client_hello(random, sni).to_vec();
    let extension = hello
        .windows(2)
        .rposition(|bytes| bytes == [0, 57])
        .unwrap();
    let parameters = TransportParameters::new(&hello[extension + 4..]);
    assert!(parameters.clone().all(|parameter| parameter.is_ok()));
    hello.splice(extension + 4..extension + 4, PARAMETER);
    // Version, random, session ID, a list of suites and a list of compression methods come first.
    let suites = 39 + usize::from(hello[38]);
    let compression =
        suites + 2 + usize::from(u16::from_be_bytes([hello[suites], hello[suites + 1]]));
    let extensions = compression + 1 + usize::from(hello[compression]);
    for length in [2, extensions, extension + 2] {
        let place = &mut hello[length..length + 2];
        let more = u16::from_be_bytes([place[0], place[1]]) + PARAMETER.len() as u16;
        place.copy_from_slice(&more.to_be_bytes());
    }
    hello.leak()
}

/// A ServerHello that chooses this cipher suite.
pub(crate) fn server_hello(suite: u16) -> &'static [u8] {
    written(|w| write_server_hello(w, &[7; 32], &[], suite, 29, &[8; 32]).unwrap())
}

pub(crate) fn hello_retry_request() -> &'static [u8] {
    written(|w| write_hello_retry_request(w, &[], 0x1301, 0x17).unwrap())
}

/// EncryptedExtensions with ALPN h3 and the given transport parameters.
pub(crate) fn encrypted_extensions(parameters: &[u8]) -> &'static [u8] {
    written(|w| {
        w.message(8, |w| {
            w.vec16(|w| {
                w.bytes(&[0, 16, 0, 5, 0, 3, 2, b'h', b'3', 0, 57])?;
                w.vec16(|w| w.bytes(parameters))
            })
        })
        .unwrap();
    })
}

fn write_frame(w: &mut Writer<'_>, frame: F) {
    match frame {
        F::Ack(largest, smallest) => write_ack(w, largest, 25, &[(largest, smallest)]),
        F::ClientHello => write_crypto(w, 0, client_hello(RANDOM, "www.example.net")),
        F::ServerHello(bytes) => {
            let hello = server_hello(0x1301);
            write_crypto(w, 0, &hello[..bytes.min(hello.len())])
        }
        F::Crypto(offset, data) => write_crypto(w, offset, data),
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
        F::Unknown => w.bytes(&[0x21]),
        F::Raw(bytes) => w.bytes(bytes),
    }
    .unwrap();
}

/// A key log with all secrets of these packets, except 0-RTT.
pub(crate) fn key_log() -> String {
    let all = [
        CLIENT_HANDSHAKE,
        SERVER_HANDSHAKE,
        CLIENT_ONE_RTT,
        SERVER_ONE_RTT,
    ];
    key_log_of(&all, CipherSuite::Aes128GcmSha256)
}

/// A key log with some of the secrets.
pub(crate) fn key_log_of(secrets: &[u8], suite: CipherSuite) -> String {
    let line = |secret: &u8| {
        let label = match *secret {
            CLIENT_HANDSHAKE => "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            SERVER_HANDSHAKE => "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            CLIENT_ONE_RTT => "CLIENT_TRAFFIC_SECRET_0",
            SERVER_ONE_RTT => "SERVER_TRAFFIC_SECRET_0",
            _ => "CLIENT_EARLY_TRAFFIC_SECRET",
        };
        let random = format!("{RANDOM:02x}").repeat(32);
        let secret = format!("{secret:02x}").repeat(suite.secret_len());
        format!("{label} {random} {secret}\n")
    };
    secrets.iter().map(line).collect()
}

/// Sender, destination and protection of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub from_client: bool,
    pub version: Version,
    /// Initial keys are derived from it, and it is the destination of the client's Initials.
    pub odcid: [u8; 8],
    /// Connection IDs other than the usual ones.
    pub to: Option<&'a [u8]>,
    pub from: Option<&'a [u8]>,
    pub token: &'a [u8],
    pub suite: CipherSuite,
    /// Key updates of 1-RTT packets.
    pub key_updates: u32,
    /// The fixed bit is not set (RFC 9287).
    pub greased: bool,
}

impl<'a> Sender<'a> {
    pub(crate) const CLIENT: Sender<'static> = Sender {
        from_client: true,
        version: Version::V1,
        odcid: ODCID,
        to: None,
        from: None,
        token: &[],
        suite: CipherSuite::Aes128GcmSha256,
        key_updates: 0,
        greased: false,
    };
    pub(crate) const SERVER: Sender<'static> = Sender {
        from_client: false,
        ..Sender::CLIENT
    };

    /// The client and the server after [`retry`].
    pub(crate) const CLIENT_AFTER_RETRY: Sender<'static> = Sender {
        odcid: RETRY,
        token: b"token",
        ..Sender::CLIENT
    };
    pub(crate) const SERVER_AFTER_RETRY: Sender<'static> = Sender {
        odcid: RETRY,
        ..Sender::SERVER
    };

    /// A datagram with `packets`.
    pub(crate) fn datagram(&self, packets: &[P<'_>]) -> Vec<u8> {
        packets.iter().flat_map(|p| self.packet(p)).collect()
    }

    fn packet(&self, packet: &P<'_>) -> Vec<u8> {
        let is_initial = packet.kind == PacketType::Initial;
        let to: &[u8] = match (self.from_client, is_initial) {
            (true, true) => &self.odcid,
            (true, false) => &SERVER,
            (false, _) => &CLIENT,
        };
        let to = self.to.unwrap_or(to);
        let from: &[u8] = if self.from_client { &CLIENT } else { &SERVER };
        let from = self.from.unwrap_or(from);
        let frames = written(|w| packet.frames.iter().for_each(|f| write_frame(w, *f)));
        match packet.kind {
            PacketType::OneRtt => self.short(to, packet.number, frames),
            PacketType::ZeroRtt => self.long(0xd3, packet, to, from, frames),
            PacketType::Handshake if self.greased => self.long(0xa3, packet, to, from, frames),
            PacketType::Initial if self.greased => self.long(0x83, packet, to, from, frames),
            _ => {
                let [to, from] = [to, from].map(|cid| ConnectionId::new(cid).unwrap());
                let mut header = LongHeader::initial(self.version, to, from, packet.number);
                header.kind = packet.kind;
                header.token = self.token;
                let pad_to = (is_initial && self.from_client).then_some(1200);
                let keys = self.long_keys(packet.kind);
                let mut out = [0; 1500];
                let size =
                    build_packet(&mut out, &header, &keys, pad_to, |w| w.bytes(frames)).unwrap();
                out[..size].to_vec()
            }
        }
    }

    fn long_keys(&self, kind: PacketType) -> Keys {
        let initial = InitialSecret::new(self.version, &self.odcid.into()).unwrap();
        match (kind, self.from_client) {
            (PacketType::Initial, true) => Keys::new(&initial.client()),
            (PacketType::Initial, false) => Keys::new(&initial.server()),
            (PacketType::ZeroRtt, _) => self.secret(CLIENT_EARLY).keys(),
            (_, true) => self.secret(CLIENT_HANDSHAKE).keys(),
            (_, false) => self.secret(SERVER_HANDSHAKE).keys(),
        }
    }

    fn secret(&self, secret: u8) -> TrafficSecret {
        let bytes = vec![secret; self.suite.secret_len()];
        TrafficSecret::new(self.version, self.suite, &bytes).unwrap()
    }

    /// A long header of version 1 with any `first_byte`. `build_packet` cannot write all of them.
    fn long(
        &self,
        first_byte: u8,
        packet: &P<'_>,
        to: &[u8],
        from: &[u8],
        frames: &[u8],
    ) -> Vec<u8> {
        let mut out = written(|w| {
            w.bytes(&[first_byte]).unwrap();
            w.u32(self.version.0).unwrap();
            w.vec8(to).unwrap();
            w.vec8(from).unwrap();
            if packet.kind == PacketType::Initial {
                w.varint(self.token.len() as u64).unwrap();
                w.bytes(self.token).unwrap();
            }
            w.varint2(4 + frames.len() + TAG_LEN).unwrap();
            w.u32(packet.number as u32).unwrap();
            w.bytes(frames).unwrap();
            w.zeros(TAG_LEN).unwrap();
        })
        .to_vec();
        let pn_offset = out.len() - TAG_LEN - frames.len() - 4;
        let keys = self.long_keys(packet.kind);
        keys.seal(&mut out, pn_offset, 4, packet.number).unwrap();
        out
    }

    fn short(&self, to: &[u8], number: u64, frames: &[u8]) -> Vec<u8> {
        let is_odd = self.key_updates % 2 == 1;
        let mut out = written(|w| {
            let first_byte = if is_odd { 0x47 } else { 0x43 };
            w.u8(if self.greased {
                first_byte & !0x40
            } else {
                first_byte
            })
            .unwrap();
            w.bytes(to).unwrap();
            w.u32(number as u32).unwrap();
            w.bytes(frames).unwrap();
            w.zeros(TAG_LEN).unwrap();
        })
        .to_vec();
        let pn_offset = 1 + to.len();
        let first = self.secret(if self.from_client {
            CLIENT_ONE_RTT
        } else {
            SERVER_ONE_RTT
        });
        if self.key_updates == 0 {
            first.keys().seal(&mut out, pn_offset, 4, number).unwrap();
            return out;
        }
        let plain = out[..pn_offset + 4].to_vec();
        let secret = (0..self.key_updates).fold(first, |secret, _| secret.next());
        secret.keys().seal(&mut out, pn_offset, 4, number).unwrap();
        out[..pn_offset + 4].copy_from_slice(&plain);
        // Header protection keeps its first key (RFC 9001 6.1). Opening with that key fails, but applies its
        // mask: to the first byte, and when that is protected, to the packet number.
        let masked = |bytes: &[u8]| {
            let packet = parse_packet(bytes, 0, to.len()).unwrap();
            let mut copy = bytes.to_vec();
            assert!(first.keys().open(&mut copy, &packet, None).is_err());
            copy
        };
        out[0] = masked(&out)[0];
        let number_place = pn_offset..pn_offset + 4;
        let masked = masked(&out);
        out[number_place.clone()].copy_from_slice(&masked[number_place]);
        out
    }
}

/// A datagram with `packets`. The client sends Initials with `token` to `odcid`, which gives their keys.
pub(crate) fn datagram(
    from_client: bool,
    odcid: [u8; 8],
    token: &[u8],
    packets: &[P<'_>],
) -> Vec<u8> {
    let sender = Sender {
        from_client,
        odcid,
        token,
        ..Sender::CLIENT
    };
    sender.datagram(packets)
}

/// A Retry that answers the first Initial.
pub(crate) fn retry() -> Vec<u8> {
    retry_with(Version::V1, CLIENT, RETRY, b"token")
}

/// A Retry with the tag for the first Initial.
pub(crate) fn retry_with(version: Version, to: [u8; 8], from: [u8; 8], token: &[u8]) -> Vec<u8> {
    let mut out = [0; 200];
    let [odcid, to, from] = [ODCID, to, from].map(ConnectionId::from);
    let size = write_retry(&mut out, version, &odcid, &to, &from, token, 0).unwrap();
    out[..size].to_vec()
}

pub(crate) fn version_negotiation(to: [u8; 8], from: [u8; 8], versions: &[Version]) -> Vec<u8> {
    let mut out = [0; 200];
    let [to, from] = [to, from].map(ConnectionId::from);
    let size = write_version_negotiation(&mut out, &to, &from, versions, 0).unwrap();
    out[..size].to_vec()
}
