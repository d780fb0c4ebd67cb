//! Copies of a recording, each with different addresses, connection IDs and secrets.

use std::fmt::Write;

use firstflight_wire::{
    CipherSuite, ConnectionId, InitialSecret, Keys, PacketType, TAG_LEN, TrafficSecret,
};

use crate::recording::{LABELS, Plain, Recording};

/// Bytes in a packet that every copy replaces: a connection ID or the client random.
struct Patch {
    at: usize,
    /// Index into [`Copier::names`].
    name: usize,
}

/// A packet (header and payload together) and the bytes to replace in it.
struct Mould<'a> {
    plain: &'a Plain,
    bytes: Vec<u8>,
    patches: Vec<Patch>,
}

/// Makes copies of a recording.
pub struct Copier<'a> {
    recording: &'a Recording,
    /// Connection IDs and the client random, as recorded.
    names: Vec<&'a [u8]>,
    moulds: Vec<Vec<Mould<'a>>>,
}

impl<'a> Copier<'a> {
    pub fn new(recording: &'a Recording) -> Copier<'a> {
        let mut names: Vec<&[u8]> = recording.ids.iter().map(Vec::as_slice).collect();
        names.push(&recording.random);
        let moulds = recording.datagrams.iter();
        let moulds = moulds
            .map(|datagram| {
                datagram
                    .packets
                    .iter()
                    .map(|plain| mould(plain, &names))
                    .collect()
            })
            .collect();
        Copier {
            recording,
            names,
            moulds,
        }
    }

    /// The key log lines of copy `n`.
    pub fn key_log(&self, n: u64) -> String {
        let mut text = String::new();
        let random = hex(&self.fresh(n, self.names.len() - 1));
        for (place, label) in LABELS.iter().enumerate() {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{label} {random} {}", hex(&self.secret(n, place)));
        }
        text
    }

    /// The IP packets of copy `n`, with nanoseconds from its start.
    pub fn frames(&self, n: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let keys = self.keys(n);
        let fresh: Vec<Vec<u8>> = (0..self.names.len())
            .map(|name| self.fresh(n, name))
            .collect();
        self.recording
            .datagrams
            .iter()
            .zip(&self.moulds)
            .map(move |(datagram, moulds)| {
                let mut packet = headers(n, datagram.from_client);
                let side = usize::from(!datagram.from_client);
                for mould in moulds {
                    seal(mould, &fresh, &keys, side, &mut packet);
                }
                packet.extend(std::iter::repeat_n(0, datagram.zeros));
                let (ip, udp) = (packet.len() as u16, packet.len() as u16 - 20);
                packet[2..4].copy_from_slice(&ip.to_be_bytes());
                packet[24..26].copy_from_slice(&udp.to_be_bytes());
                (datagram.after_ns, packet)
            })
    }

    /// The bytes that replace `names[name]` in copy `n`.
    fn fresh(&self, n: u64, name: usize) -> Vec<u8> {
        random(n, name as u64, self.names[name].len())
    }

    fn secret(&self, n: u64, place: usize) -> Vec<u8> {
        let length = if self.recording.suite == CipherSuite::Aes256GcmSha384 {
            48
        } else {
            32
        };
        random(n, 1000 + place as u64, length)
    }

    /// Keys of Initial, Handshake and 1-RTT; client and server.
    fn keys(&self, n: u64) -> [[Keys; 2]; 3] {
        let place = self
            .names
            .iter()
            .position(|name| *name == self.recording.odcid);
        let odcid = place.map_or_else(|| self.recording.odcid.clone(), |name| self.fresh(n, name));
        let odcid = ConnectionId::new(&odcid).unwrap_or(ConnectionId::EMPTY);
        let version = self.recording.version;
        let known = "the recording was opened with this version and suite";
        let initial = InitialSecret::new(version, &odcid).expect(known);
        let traffic = |place| {
            TrafficSecret::new(version, self.recording.suite, &self.secret(n, place))
                .expect(known)
                .keys()
        };
        [
            [Keys::new(&initial.client()), Keys::new(&initial.server())],
            [traffic(0), traffic(1)],
            [traffic(2), traffic(3)],
        ]
    }
}

fn mould<'a>(plain: &'a Plain, names: &[&[u8]]) -> Mould<'a> {
    let bytes = [plain.header.as_slice(), &plain.payload, &[0; TAG_LEN]].concat();
    let mut patches = Vec::new();
    for (name, old) in names.iter().enumerate() {
        let places = bytes.windows(old.len()).enumerate();
        patches.extend(
            places
                .filter(|(_, window)| window == old)
                .map(|(at, _)| Patch { at, name }),
        );
    }
    Mould {
        plain,
        bytes,
        patches,
    }
}

fn seal(
    mould: &Mould<'_>,
    fresh: &[Vec<u8>],
    keys: &[[Keys; 2]; 3],
    side: usize,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend(&mould.bytes);
    let packet = &mut out[start..];
    for patch in &mould.patches {
        let new = &fresh[patch.name];
        packet[patch.at..patch.at + new.len()].copy_from_slice(new);
    }
    let space = match mould.plain.kind {
        PacketType::Initial => 0,
        PacketType::Handshake => 1,
        _ => 2,
    };
    let plain = mould.plain;
    keys[space][side]
        .seal(packet, plain.pn_offset, plain.pn_len, plain.packet_number)
        .expect("the recorded packet was long enough to be opened");
}

/// First port of a client address in 10/8. These ports are dynamic (RFC 6335 section 6), and no dissector of tshark is
/// registered for them. tshark would take QUIC on a registered port for that dissector's protocol; some dissectors
/// would then also claim every packet from the server's port.
const FIRST_PORT: u16 = 61_440;
const PORTS: u64 = 4096;

/// IPv4 and UDP headers of copy `n`. The lengths are still zero. The checksums stay zero: by default, dissectors do not
/// verify them.
fn headers(n: u64, from_client: bool) -> Vec<u8> {
    let host = (n / PORTS) as u32 + 1;
    let client = [10, (host >> 16) as u8, (host >> 8) as u8, host as u8];
    let server = [198, 18, 0, 1];
    let port = FIRST_PORT + (n % PORTS) as u16;
    let (src, dst) = if from_client {
        (client, server)
    } else {
        (server, client)
    };
    let (from, to) = if from_client {
        (port, 443)
    } else {
        (443, port)
    };
    let mut out = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 57, 17, 0, 0];
    out.extend([src, dst].concat());
    out.extend([from.to_be_bytes(), to.to_be_bytes(), [0; 2], [0; 2]].concat());
    out
}

/// Pseudorandom bytes derived from two numbers (splitmix64).
fn random(n: u64, salt: u64, length: usize) -> Vec<u8> {
    let mut state = mixed(n ^ mixed(salt));
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        out.extend(mixed(state).to_le_bytes());
    }
    out.truncate(length);
    out
}

fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
