//! A recorded handshake with its packets decrypted.

use std::fs;
use std::path::Path;

use firstflight_wire::tls::{ClientHello, ServerHello, number, read_message};
use firstflight_wire::{
    CipherSuite, Frame, Frames, InitialSecret, Keys, Packet, PacketType, Reader, TrafficSecret,
    Version, parse_packet,
};

/// Labels of the four secrets, in the order of [`Recording::secrets`].
pub const LABELS: [&str; 4] = [
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
];

/// A packet in the clear.
pub struct Plain {
    pub kind: PacketType,
    /// Header without protection, up to and with the packet number.
    pub header: Vec<u8>,
    pub pn_offset: usize,
    pub pn_len: usize,
    pub packet_number: u64,
    pub payload: Vec<u8>,
}

/// A datagram of the recording.
pub struct Datagram {
    pub after_ns: u64,
    pub from_client: bool,
    pub packets: Vec<Plain>,
    /// Number of zero bytes after the last packet.
    pub zeros: usize,
}

/// One recorded handshake.
pub struct Recording {
    pub version: Version,
    pub suite: CipherSuite,
    pub odcid: Vec<u8>,
    pub random: Vec<u8>,
    /// All distinct connection IDs.
    pub ids: Vec<Vec<u8>>,
    pub datagrams: Vec<Datagram>,
}

/// A UDP datagram of the recording: its time, whether the client sent it, and its payload.
struct Sent {
    at_ns: u64,
    from_client: bool,
    payload: Vec<u8>,
}

impl Recording {
    /// Reads and decrypts the handshake in `path`; the key log is in the same folder.
    pub fn read(path: &Path) -> Result<Recording, String> {
        let wrong = |what: &str| format!("{}: {what}", path.display());
        let capture = fs::read(path).map_err(|error| wrong(&error.to_string()))?;
        let log = fs::read_to_string(path.with_extension("keys"))
            .map_err(|error| wrong(&format!("its key log cannot be read: {error}")))?;
        let sent = udp(&capture)
            .ok_or_else(|| wrong("expected a whole pcap of IPv4 on Ethernet or PPP"))?;
        let begin = sent.first().ok_or_else(|| wrong("no QUIC in it"))?.at_ns;
        let secrets = secrets(&log).ok_or_else(|| wrong("its key log lacks a secret"))?;
        Opener::new(secrets)
            .open(&sent, begin)
            .map_err(|what| wrong(&what))
    }
}

/// Returns the bytes of an IPv4 frame before its IP header; `None` for an unsupported link type.
fn link_header(link: u32) -> Option<&'static [u8]> {
    match link {
        // Ethernet: addresses (all zero on loopback), type.
        1 => Some(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00]),
        // PPP: its protocol.
        9 => Some(&[0, 0x21]),
        _ => None,
    }
}

/// Returns the UDP datagrams of the connection that the first Initial in the recording starts.
fn udp(capture: &[u8]) -> Option<Vec<Sent>> {
    let word = |at: usize| Some(u32::from_le_bytes(*capture.get(at..)?.first_chunk()?));
    if word(0)? != 0xa1b2_c3d4 {
        return None;
    }
    let link = link_header(word(20)?)?;
    let (mut at, mut found) = (24, Vec::new());
    let mut client: Option<[u8; 4]> = None;
    while at < capture.len() {
        let (seconds, micros, length) = (word(at)?, word(at + 4)?, word(at + 8)? as usize);
        let frame = capture.get(at + 16..at + 16 + length)?;
        at += 16 + length;
        let Some(packet) = frame.strip_prefix(link) else {
            continue;
        };
        // IPv4 without options; UDP.
        if packet.len() < 28 || packet[0] != 0x45 || packet[9] != 17 {
            continue;
        }
        let ports = [packet[20], packet[21], packet[22], packet[23]];
        let payload = packet[28..].to_vec();
        if payload.first().is_some_and(|first| first & 0xf0 == 0xc0) {
            client.get_or_insert(ports);
        }
        let [a, b, c, d] = ports;
        let from_client = client == Some(ports);
        if from_client || client == Some([c, d, a, b]) {
            found.push(Sent {
                at_ns: u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1000,
                from_client,
                payload,
            });
        }
    }
    Some(found)
}

fn secrets(log: &str) -> Option<[Vec<u8>; 4]> {
    let of = |label: &str| {
        let line = log
            .lines()
            .find(|line| line.split(' ').next() == Some(label))?;
        hex(line.split(' ').nth(2)?)
    };
    Some([
        of(LABELS[0])?,
        of(LABELS[1])?,
        of(LABELS[2])?,
        of(LABELS[3])?,
    ])
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    Some(
        digits?
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}

struct Opener {
    secrets: [Vec<u8>; 4],
    /// Initial, Handshake and 1-RTT; client and server.
    keys: [[Option<Keys>; 2]; 3],
    largest: [[Option<u64>; 2]; 3],
    suite: Option<CipherSuite>,
    random: Vec<u8>,
    ids: Vec<Vec<u8>>,
    short_ids: [Vec<u8>; 2],
}

impl Opener {
    fn new(secrets: [Vec<u8>; 4]) -> Opener {
        Opener {
            secrets,
            keys: Default::default(),
            largest: Default::default(),
            suite: None,
            random: Vec::new(),
            ids: Vec::new(),
            short_ids: Default::default(),
        }
    }

    fn open(mut self, sent: &[Sent], begin: u64) -> Result<Recording, String> {
        let first = parse_packet(&sent[0].payload, 0, 0).map_err(|error| error.to_string())?;
        let secret = InitialSecret::new(first.version, &first.dcid).ok_or("unknown version")?;
        self.keys[0] = [
            Some(Keys::new(&secret.client())),
            Some(Keys::new(&secret.server())),
        ];
        let mut datagrams = Vec::new();
        for datagram in sent {
            datagrams.push(self.datagram(datagram, begin, first.version)?);
        }
        self.ids.retain(|id| id.len() >= 4);
        Ok(Recording {
            version: first.version,
            suite: self.suite.ok_or("no ServerHello in it")?,
            odcid: first.dcid.as_slice().to_vec(),
            random: self.random,
            ids: self.ids,
            datagrams,
        })
    }

    fn datagram(&mut self, sent: &Sent, begin: u64, version: Version) -> Result<Datagram, String> {
        let mut bytes = sent.payload.clone();
        let mut datagram = Datagram {
            after_ns: sent.at_ns - begin,
            from_client: sent.from_client,
            packets: Vec::new(),
            zeros: 0,
        };
        let side = usize::from(!sent.from_client);
        let mut at = 0;
        while at < bytes.len() {
            if at > 0 && bytes[at..].iter().all(|&byte| byte == 0) {
                datagram.zeros = bytes.len() - at;
                break;
            }
            let packet = parse_packet(&bytes, at, self.short_ids[1 - side].len())
                .map_err(|error| error.to_string())?;
            at = packet.end;
            let plain = self.packet(&packet, side, &mut bytes, version)?;
            datagram.packets.push(plain);
        }
        Ok(datagram)
    }

    fn packet(
        &mut self,
        packet: &Packet,
        side: usize,
        bytes: &mut [u8],
        version: Version,
    ) -> Result<Plain, String> {
        let space = match packet.kind {
            PacketType::Initial => 0,
            PacketType::Handshake => 1,
            PacketType::OneRtt => 2,
            other => return Err(format!("a packet of kind {} in it", other.name())),
        };
        if space > 0 && self.keys[space][side].is_none() {
            let suite = self
                .suite
                .ok_or("no ServerHello before the first Handshake packet")?;
            let secret = &self.secrets[(space - 1) * 2 + side];
            let secret =
                TrafficSecret::new(version, suite, secret).ok_or("a secret of wrong length")?;
            self.keys[space][side] = Some(secret.keys());
        }
        let keys = self.keys[space][side].as_ref().ok_or("no keys")?;
        let opened = keys
            .open(bytes, packet, self.largest[space][side])
            .map_err(|_| format!("a packet of kind {} does not open", packet.kind.name()))?;
        let (packet_number, pn_len) = (opened.packet_number, opened.pn_len);
        let payload = opened.payload.to_vec();
        self.largest[space][side] = self.largest[space][side].max(Some(packet_number));
        if space < 2 {
            self.short_ids[side] = packet.scid.as_slice().to_vec();
            self.note(packet.dcid.as_slice());
            self.note(packet.scid.as_slice());
        }
        self.read_frames(&payload, space == 0, side);
        Ok(Plain {
            kind: packet.kind,
            header: bytes[packet.start..packet.pn_offset + pn_len].to_vec(),
            pn_offset: packet.pn_offset - packet.start,
            pn_len,
            packet_number,
            payload,
        })
    }

    fn note(&mut self, id: &[u8]) {
        if !self.ids.iter().any(|known| known == id) {
            self.ids.push(id.to_vec());
        }
    }

    fn read_frames(&mut self, payload: &[u8], initial: bool, side: usize) {
        for frame in Frames::new(payload).flatten() {
            match frame {
                Frame::NewConnectionId { cid, .. } => self.note(cid.as_slice()),
                Frame::Crypto { offset: 0, data } if initial => {
                    let Ok((kind, body)) = read_message(&mut Reader::new(data)) else {
                        continue;
                    };
                    if let (0, number::CLIENT_HELLO, Ok(hello)) =
                        (side, kind, ClientHello::parse(body))
                    {
                        self.random = hello.random.to_vec();
                    }
                    if let (1, number::SERVER_HELLO, Ok(hello)) =
                        (side, kind, ServerHello::parse(body))
                    {
                        self.suite = CipherSuite::from_number(hello.cipher_suite);
                    }
                }
                _ => {}
            }
        }
    }
}
