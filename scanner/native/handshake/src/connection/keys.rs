//! Packet protection with the TLS library's keys (RFC 9001 5.3, 5.4) in all three spaces, and the server's key updates
//! (RFC 9001 6). We initiate no key updates.

mod of_secrets;

use firstflight_wire::{Error, Packet, Seal, TAG_LEN, decode_packet_number};
use rustls::quic::{DirectionalKeys, Keys, PacketKey, PacketKeySet, Secrets};

pub use of_secrets::{OwnSecrets, initial};

/// The client's and the server's keys for a packet number space.
pub struct SpaceKeys {
    keys: Keys,
    /// Only in the 1-RTT space.
    updates: Option<Box<Updates>>,
}

/// Source of the keys after an update.
enum Source {
    Tls(Secrets),
    Own(OwnSecrets),
}

impl Source {
    fn next_packet_keys(&mut self) -> Option<PacketKeySet> {
        match self {
            Source::Tls(secrets) => Some(secrets.next_packet_keys()),
            Source::Own(secrets) => secrets.next_packet_keys(),
        }
    }
}

/// State of key updates.
struct Updates {
    secrets: Source,
    /// Keys after the next update, made for the first packet that needs them. Few connections last that long.
    next: Option<PacketKeySet>,
    /// The server's keys before the last update, for late packets.
    previous: Option<Box<dyn PacketKey>>,
    /// Number of updates.
    generation: u64,
    /// Smallest packet number opened in this generation.
    first_number: u64,
    /// An ACK was sent in this generation, so the server may update again.
    answered: bool,
}

/// Keys that decrypt a 1-RTT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    Previous,
    Current,
    Next,
}

/// Our keys of 0-RTT packets.
pub struct EarlyKeys(pub DirectionalKeys);

/// A packet that authenticated: the packet number, and the position of the frames in the datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    pub number: u64,
    pub frames: std::ops::Range<usize>,
    /// False is a connection error (RFC 9000 17.2, 17.3.1).
    pub reserved_bits_clear: bool,
    /// The server updated its keys again before an ACK could tell it that we have the keys of the last update. This may
    /// be a connection error (RFC 9001 6.2).
    pub updated_too_soon: bool,
}

impl From<Keys> for SpaceKeys {
    fn from(keys: Keys) -> Self {
        SpaceKeys {
            keys,
            updates: None,
        }
    }
}

impl Updates {
    /// Chooses keys by the phase bit (RFC 9001 6.3 to 6.5).
    fn choose(&self, phase_is_odd: bool, number: u64) -> Generation {
        if phase_is_odd == (self.generation % 2 == 1) {
            Generation::Current
        } else if self.generation > 0 && number < self.first_number {
            Generation::Previous
        } else {
            Generation::Next
        }
    }

    /// Makes the next keys, unless they exist.
    fn prepare(&mut self) {
        if self.next.is_none() {
            self.next = self.secrets.next_packet_keys();
        }
    }

    /// Switches both directions to the next keys, after a packet authenticated with them.
    fn turn(&mut self, keys: &mut Keys) {
        self.prepare();
        let Some(PacketKeySet { local, remote }) = self.next.take() else {
            return;
        };
        keys.local.packet = local;
        self.previous = Some(std::mem::replace(&mut keys.remote.packet, remote));
        self.generation += 1;
        self.first_number = u64::MAX;
        self.answered = false;
    }
}

impl SpaceKeys {
    /// Returns keys of the 1-RTT space. `secrets` gives the keys of later updates.
    pub fn one_rtt(keys: Keys, secrets: Secrets) -> SpaceKeys {
        SpaceKeys::updating(keys, Source::Tls(secrets))
    }

    /// Like [`Self::one_rtt`], but from secrets only. Returns `None` if they give no keys.
    pub fn one_rtt_of(secrets: OwnSecrets) -> Option<SpaceKeys> {
        let keys = secrets.keys()?;
        Some(SpaceKeys::updating(keys, Source::Own(secrets)))
    }

    fn updating(keys: Keys, secrets: Source) -> SpaceKeys {
        let updates = Updates {
            secrets,
            next: None,
            previous: None,
            generation: 0,
            first_number: u64::MAX,
            // The first update waits for no ACK.
            answered: true,
        };
        SpaceKeys {
            keys,
            updates: Some(Box::new(updates)),
        }
    }

    /// Returns the key phase of packets that we send.
    pub fn phase_is_odd(&self) -> bool {
        self.generation() % 2 == 1
    }

    /// Returns how often the server has updated its keys.
    pub fn generation(&self) -> u64 {
        self.updates
            .as_ref()
            .map_or(0, |updates| updates.generation)
    }

    /// Records that a packet with an ACK was sent.
    pub fn acknowledged(&mut self) {
        if let Some(updates) = &mut self.updates {
            updates.answered = true;
        }
    }

    /// Decrypts a packet of the server in place. `largest` is the largest number decrypted before in this space.
    /// Returns `None` if the packet does not authenticate; the bytes are then unusable.
    pub fn open(
        &mut self,
        datagram: &mut [u8],
        packet: &Packet,
        largest: Option<u64>,
    ) -> Option<Opened> {
        let DirectionalKeys {
            header: protection,
            packet: aead,
        } = &self.keys.remote;
        let bytes = datagram.get_mut(packet.start..packet.end)?;
        let pn_offset = packet.pn_offset.checked_sub(packet.start)?;
        let sample_at = pn_offset + 4;
        let sample_len = protection.sample_len();
        let (head, rest) = bytes.split_at_mut_checked(sample_at)?;
        let (first, head) = head.split_first_mut()?;
        let numbers = head.get_mut(pn_offset.checked_sub(1)?..)?;
        protection
            .decrypt_in_place(rest.get(..sample_len)?, first, numbers)
            .ok()?;
        let (first_byte, pn_len) = (*first, usize::from(*first & 3) + 1);
        let truncated = numbers[..pn_len]
            .iter()
            .fold(0, |number, byte| number << 8 | u32::from(*byte));
        let number = decode_packet_number(largest, truncated, pn_len);
        let (header, payload) = bytes.split_at_mut(pn_offset + pn_len);
        let generation = match &self.updates {
            Some(updates) => updates.choose(first_byte & 0x04 != 0, number),
            None => Generation::Current,
        };
        if let (Generation::Next, Some(updates)) = (generation, &mut self.updates) {
            updates.prepare();
        }
        let updates = self.updates.as_ref();
        let aead = match generation {
            Generation::Current => aead,
            Generation::Previous => updates?.previous.as_ref()?,
            Generation::Next => &updates?.next.as_ref()?.remote,
        };
        let length = aead.decrypt_in_place(number, header, payload).ok()?.len();
        let mut updated_too_soon = false;
        if let Some(updates) = &mut self.updates {
            if generation == Generation::Next {
                updated_too_soon = !updates.answered;
                updates.turn(&mut self.keys);
            }
            if generation != Generation::Previous {
                updates.first_number = updates.first_number.min(number);
            }
        }
        let start = packet.start + pn_offset + pn_len;
        let reserved = if first_byte & 0x80 != 0 { 0x0c } else { 0x18 };
        Some(Opened {
            number,
            frames: start..start + length,
            reserved_bits_clear: first_byte & reserved == 0,
            updated_too_soon,
        })
    }
}

impl Seal for SpaceKeys {
    fn seal(
        &self,
        packet: &mut [u8],
        pn_offset: usize,
        pn_len: usize,
        packet_number: u64,
    ) -> Result<(), Error> {
        seal(&self.keys.local, packet, pn_offset, pn_len, packet_number)
    }
}

impl Seal for EarlyKeys {
    fn seal(
        &self,
        packet: &mut [u8],
        pn_offset: usize,
        pn_len: usize,
        packet_number: u64,
    ) -> Result<(), Error> {
        seal(&self.0, packet, pn_offset, pn_len, packet_number)
    }
}

/// Protects a packet with these keys; see [`Seal::seal`].
fn seal(
    keys: &DirectionalKeys,
    packet: &mut [u8],
    pn_offset: usize,
    pn_len: usize,
    packet_number: u64,
) -> Result<(), Error> {
    let DirectionalKeys {
        header: protection,
        packet: aead,
    } = keys;
    if packet.len() < pn_offset + 4 + protection.sample_len() {
        return Err(Error::NoRoom);
    }
    let (header, body) = packet.split_at_mut(pn_offset + pn_len);
    let (plain, tag_place) = body.split_at_mut(body.len() - TAG_LEN);
    let tag = aead
        .encrypt_in_place(packet_number, header, plain)
        .map_err(|_| Error::NoRoom)?;
    tag_place.copy_from_slice(tag.as_ref());
    let (head, rest) = packet.split_at_mut(pn_offset + 4);
    let (first, head) = head.split_first_mut().ok_or(Error::NoRoom)?;
    let numbers = &mut head[pn_offset - 1..][..pn_len];
    protection
        .encrypt_in_place(&rest[..protection.sample_len()], first, numbers)
        .map_err(|_| Error::NoRoom)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use firstflight_wire::{ShortHeader, build_short_packet, parse_packet, write_ping};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::quic::{Connection, KeyChange, ServerConnection, Version};

    use super::*;
    use crate::tls::{KeyShare, Tls, Verify};

    /// Passes messages on, and returns the 1-RTT keys made with them.
    fn pass(from: &mut Connection, to: &mut Connection) -> Option<SpaceKeys> {
        let mut found = None;
        loop {
            let mut bytes = Vec::new();
            let change = from.write_hs(&mut bytes);
            to.read_hs(&bytes).unwrap();
            match change {
                Some(KeyChange::OneRtt { keys, next }) => {
                    found = Some(SpaceKeys::one_rtt(keys, next));
                }
                None if bytes.is_empty() => return found,
                _ => {}
            }
        }
    }

    /// 1-RTT keys of a client and a server.
    fn pair() -> (SpaceKeys, SpaceKeys) {
        let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key))
            .unwrap();
        config.alpn_protocols = vec![b"h3".to_vec()];
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let tls = Tls::new(KeyShare::X25519, Verify::None, None, false).unwrap();
        let client = tls
            .begin(Version::V1, ("a.test", ip), vec![], None)
            .unwrap();
        let server = ServerConnection::new(Arc::new(config), Version::V1, vec![]).unwrap();
        let (mut client, mut server) = (Connection::from(client), Connection::from(server));
        assert!(pass(&mut client, &mut server).is_none());
        let of_server = pass(&mut server, &mut client).unwrap();
        (pass(&mut client, &mut server).unwrap(), of_server)
    }

    /// A PING of the server.
    fn ping(server: &SpaceKeys, packet_number: u64) -> Vec<u8> {
        let mut out = [0; 100];
        let header = ShortHeader {
            dcid: [7; 8].into(),
            packet_number,
            pn_len: 2,
            key_phase: server.phase_is_odd(),
        };
        let size = build_short_packet(&mut out, &header, server, None, write_ping).unwrap();
        out[..size].to_vec()
    }

    fn update(keys: &mut SpaceKeys) {
        let mut updates = keys.updates.take().unwrap();
        updates.turn(&mut keys.keys);
        keys.updates = Some(updates);
    }

    /// Decrypts a packet. Returns whether the key update was too soon, or `None` if it does not authenticate.
    fn open(keys: &mut SpaceKeys, datagram: &[u8]) -> Option<bool> {
        let mut datagram = datagram.to_vec();
        let packet = parse_packet(&datagram, 0, 8).unwrap();
        let opened = keys.open(&mut datagram, &packet, Some(3))?;
        Some(opened.updated_too_soon)
    }

    #[test]
    fn an_update_before_the_last_is_answered_is_told() {
        for answered in [true, false] {
            let (mut client, mut server) = pair();
            let [late, first] = [0, 1].map(|number| ping(&server, number));
            assert_eq!(open(&mut client, &first), Some(false));
            update(&mut server);
            let second = ping(&server, 2);
            assert_eq!(open(&mut client, &second), Some(false));
            assert_eq!((client.generation(), client.phase_is_odd()), (1, true));
            assert_eq!(
                open(&mut client, &late),
                Some(false),
                "with the keys before"
            );
            if answered {
                client.acknowledged();
            }
            update(&mut server);
            let mut broken = ping(&server, 3);
            *broken.last_mut().unwrap() ^= 1;
            assert_eq!(open(&mut client, &broken), None);
            assert_eq!(client.generation(), 1, "only what authenticates turns keys");
            let third = ping(&server, 3);
            assert_eq!(open(&mut client, &third), Some(!answered));
            assert_eq!((client.generation(), client.phase_is_odd()), (2, false));
            assert_eq!(open(&mut client, &second), Some(false));
            // Two updates ago.
            assert_eq!(open(&mut client, &first), None);
            assert_eq!(open(&mut server, &ping(&client, 3)), Some(false));
        }
    }
}
