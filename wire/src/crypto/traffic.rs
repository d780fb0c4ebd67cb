//! Handshake, 0-RTT and 1-RTT protection: keys from TLS traffic secrets, and key updates (RFC 9001 5, 6; RFC
//! 9369 3.3.2).

use super::hmac::sha256::{HmacKey, LastBlock};
use super::hmac::sha384;
use super::secrets::{expand_label, first, label_info};
use super::{CipherSuite, KeyCache, Keys, SuiteMaterial};
use crate::version::Family;
use crate::{OpenError, Opened, Packet, Version};

/// Length of the longest traffic secret, for a cipher suite with SHA-384.
const MAX_SECRET: usize = 48;

/// Labels of a version for the suites with SHA-256.
struct Labels {
    key_16: LastBlock,
    key_32: LastBlock,
    iv: LastBlock,
    hp_16: LastBlock,
    hp_32: LastBlock,
    update: LastBlock,
}

static LABELS_V1: Labels = Labels {
    key_16: expand_label("quic key", 16),
    key_32: expand_label("quic key", 32),
    iv: expand_label("quic iv", 12),
    hp_16: expand_label("quic hp", 16),
    hp_32: expand_label("quic hp", 32),
    update: expand_label("quic ku", 32),
};
static LABELS_V2: Labels = Labels {
    key_16: expand_label("quicv2 key", 16),
    key_32: expand_label("quicv2 key", 32),
    iv: expand_label("quicv2 iv", 12),
    hp_16: expand_label("quicv2 hp", 16),
    hp_32: expand_label("quicv2 hp", 32),
    update: expand_label("quicv2 ku", 32),
};

/// Labels of a version for the suite with SHA-384.
struct LongLabels {
    key: sha384::LastBlock,
    iv: sha384::LastBlock,
    hp: sha384::LastBlock,
    update: sha384::LastBlock,
}

const fn expand_long_label(label: &str, length: u8) -> sha384::LastBlock {
    let (info, used) = label_info(label, length);
    sha384::LastBlock::new(info.split_at(used).0)
}

static LONG_LABELS_V1: LongLabels = LongLabels {
    key: expand_long_label("quic key", 32),
    iv: expand_long_label("quic iv", 12),
    hp: expand_long_label("quic hp", 32),
    update: expand_long_label("quic ku", 48),
};
static LONG_LABELS_V2: LongLabels = LongLabels {
    key: expand_long_label("quicv2 key", 32),
    iv: expand_long_label("quicv2 iv", 12),
    hp: expand_long_label("quicv2 hp", 32),
    update: expand_long_label("quicv2 ku", 48),
};

/// A TLS 1.3 traffic secret for one direction. Derives packet protection keys and the next secret.
#[derive(Clone, Copy)]
pub struct TrafficSecret {
    suite: CipherSuite,
    v2: bool,
    /// The first `suite.secret_len()` bytes are used.
    bytes: [u8; MAX_SECRET],
}

impl TrafficSecret {
    /// Returns `None` if the version is unknown or the secret does not have the suite's length.
    pub fn new(version: Version, suite: CipherSuite, secret: &[u8]) -> Option<TrafficSecret> {
        let v2 = version.family()? == Family::V2;
        let mut bytes = [0; MAX_SECRET];
        if secret.len() != suite.secret_len() {
            return None;
        }
        bytes[..secret.len()].copy_from_slice(secret);
        Some(TrafficSecret { suite, v2, bytes })
    }

    /// Returns the suite of the secret.
    pub fn suite(&self) -> CipherSuite {
        self.suite
    }

    /// Returns the packet protection keys of this secret.
    pub fn keys(&self) -> Keys {
        Keys::of_suite(&self.material())
    }

    /// Returns the key material of this secret.
    pub fn material(&self) -> SuiteMaterial {
        let suite = self.suite;
        match suite {
            CipherSuite::Aes128GcmSha256 => {
                let (secret, labels) = self.sha256();
                let [key, iv, hp] = secret.sign_all([&labels.key_16, &labels.iv, &labels.hp_16]);
                SuiteMaterial::new(suite, &key, first(&iv), &hp)
            }
            CipherSuite::ChaCha20Poly1305Sha256 => {
                let (secret, labels) = self.sha256();
                let [key, iv, hp] = secret.sign_all([&labels.key_32, &labels.iv, &labels.hp_32]);
                SuiteMaterial::new(suite, &key, first(&iv), &hp)
            }
            CipherSuite::Aes256GcmSha384 => {
                let (secret, labels) = self.sha384();
                let [key, iv, hp] = secret.sign_all([&labels.key, &labels.iv, &labels.hp]);
                SuiteMaterial::new(suite, &key, first(&iv), &hp)
            }
        }
    }

    /// Returns the secret after a key update (RFC 9001 6.1).
    pub fn next(&self) -> TrafficSecret {
        let mut bytes = [0; MAX_SECRET];
        if self.suite == CipherSuite::Aes256GcmSha384 {
            let (secret, labels) = self.sha384();
            bytes = secret.sign(&labels.update);
        } else {
            let (secret, labels) = self.sha256();
            bytes[..32].copy_from_slice(&secret.sign(&labels.update));
        }
        TrafficSecret { bytes, ..*self }
    }

    /// Returns the key material after a key update. It keeps the header protection key of `before` (RFC 9001 6.1).
    fn updated(&self, before: &SuiteMaterial) -> SuiteMaterial {
        let hp = before.hp;
        SuiteMaterial {
            hp,
            ..self.material()
        }
    }

    fn sha256(&self) -> (HmacKey, &'static Labels) {
        let labels = if self.v2 { &LABELS_V2 } else { &LABELS_V1 };
        (HmacKey::new(&first(&self.bytes)), labels)
    }

    fn sha384(&self) -> (sha384::HmacKey, &'static LongLabels) {
        let labels = if self.v2 {
            &LONG_LABELS_V2
        } else {
            &LONG_LABELS_V1
        };
        (sha384::HmacKey::new(&self.bytes), labels)
    }
}

/// Opens the 1-RTT packets in one direction across key updates (RFC 9001 6.3 to 6.5).
pub struct OneRttKeys {
    material: SuiteMaterial,
    /// Secret of the current generation.
    secret: TrafficSecret,
    /// Number of key updates.
    pub generation: u64,
    /// Smallest packet number opened in the current generation.
    first_number: u64,
    previous: Option<Box<SuiteMaterial>>,
}

impl OneRttKeys {
    /// Creates the keys of the first generation from *_TRAFFIC_SECRET_0.
    pub fn new(secret: TrafficSecret) -> OneRttKeys {
        OneRttKeys {
            material: secret.material(),
            secret,
            generation: 0,
            first_number: u64::MAX,
            previous: None,
        }
    }

    /// Returns the cipher suite.
    pub fn suite(&self) -> CipherSuite {
        self.secret.suite
    }

    /// Opens a short-header packet as [`Keys::open`], with keys from `cache`. For a flipped key phase, it uses the
    /// previous keys if the packet number is below the current generation. Otherwise it tries the next keys, and
    /// keeps them if they open the packet.
    pub fn open<'a>(
        &mut self,
        cache: &mut KeyCache,
        datagram: &'a mut [u8],
        packet: &Packet,
        largest: Option<u64>,
    ) -> Result<Opened<'a>, OpenError> {
        let keys = cache.keys(&self.material);
        let header = keys.unprotect(datagram, packet, largest)?;
        let phase_is_odd = header.first_byte & 0x04 != 0;
        if phase_is_odd == (self.generation % 2 == 1) {
            let opened = keys.open_unprotected(datagram, packet, &header)?;
            self.first_number = self.first_number.min(opened.packet_number);
            return Ok(opened);
        }
        if header.packet_number < self.first_number && self.generation > 0 {
            let previous = self.previous.as_ref().ok_or(OpenError::Unauthentic)?;
            let keys = cache.keys(previous);
            return keys.open_unprotected(datagram, packet, &header);
        }
        let next = self.secret.next();
        let material = next.updated(&self.material);
        let keys = cache.keys(&material);
        let opened = keys.open_unprotected(datagram, packet, &header)?;
        self.previous = Some(Box::new(std::mem::replace(&mut self.material, material)));
        self.secret = next;
        self.generation += 1;
        self.first_number = header.packet_number;
        Ok(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use crate::{ConnectionId, parse_packet};

    fn chacha(version: Version) -> TrafficSecret {
        let secret = hex("9ac312a7f877468ebe69422748ad00a1 5443f18203a07d6060f688f30f21632b");
        TrafficSecret::new(version, CipherSuite::ChaCha20Poly1305Sha256, &secret).unwrap()
    }

    /// Returns a short-header packet with an empty connection ID and `frames` sealed under `keys`.
    fn sealed(keys: &Keys, number: u64, phase_is_odd: bool, frames: &[u8]) -> Vec<u8> {
        let first = 0x43 | if phase_is_odd { 4 } else { 0 };
        let mut packet = vec![first];
        packet.extend((number as u32).to_be_bytes());
        packet.extend(frames);
        packet.extend([0; 16]);
        keys.seal(&mut packet, 1, 4, number).unwrap();
        packet
    }

    #[test]
    fn packet_of_rfc_9001_a5() {
        let secret = chacha(Version::V1);
        let mut bytes = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
        let packet = parse_packet(&bytes, 0, 0).unwrap();
        let opened = secret
            .keys()
            .open(&mut bytes, &packet, Some(654_360_563))
            .unwrap();
        assert_eq!((opened.packet_number, opened.pn_len), (654_360_564, 3));
        assert_eq!(opened.payload, [1]);
        let updated = hex("1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9");
        assert_eq!(secret.next().bytes[..32], updated);
    }

    #[test]
    fn packet_of_rfc_9369_a5() {
        let mut bytes = hex("5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba");
        let packet = parse_packet(&bytes, 0, 0).unwrap();
        let secret = chacha(Version::V2);
        let opened = secret
            .keys()
            .open(&mut bytes, &packet, Some(654_360_563))
            .unwrap();
        assert_eq!(
            (opened.packet_number, opened.payload),
            (654_360_564, &[1u8][..])
        );
        let updated = hex("c69374c49e3d2a9466fa689e49d476db5d0dfbc87d32ceeaa6343fd0ae4c7d88");
        assert_eq!(secret.next().bytes[..32], updated);
    }

    #[test]
    fn secrets_have_the_length_of_their_suite() {
        for suite in [0x1301, 0x1302, 0x1303].map(|n| CipherSuite::from_number(n).unwrap()) {
            for (length, fits) in [
                (32, suite.secret_len() == 32),
                (48, suite.secret_len() == 48),
            ] {
                let made = TrafficSecret::new(Version::V1, suite, &vec![7; length]);
                assert_eq!(made.is_some(), fits);
            }
        }
        assert!(CipherSuite::from_number(0x1304).is_none());
        assert!(TrafficSecret::new(Version(7), CipherSuite::Aes128GcmSha256, &[0; 32]).is_none());
    }

    #[test]
    fn key_updates_are_followed_and_late_packets_opened() {
        for number in [0x1301, 0x1302, 0x1303] {
            let suite = CipherSuite::from_number(number).unwrap();
            let secret =
                TrafficSecret::new(Version::V1, suite, &vec![3; suite.secret_len()]).unwrap();
            let generation = |n: u64| {
                let later = (0..n).fold(secret, |secret, _| secret.next());
                Keys::of_suite(&later.updated(&secret.material()))
            };
            let mut receiver = OneRttKeys::new(secret);
            let mut cache = KeyCache::default();
            let mut largest = None;
            // 4 is a late packet of the previous generation. 7 follows a second update.
            for (number, of, opens) in [
                (3, 0, true),
                (5, 1, true),
                (4, 0, true),
                (6, 1, true),
                (7, 2, true),
                (8, 5, false),
                (9, 2, true),
            ] {
                let mut bytes = sealed(&generation(of), number, of % 2 == 1, b"\x01\x01");
                let packet = parse_packet(&bytes, 0, 0).unwrap();
                assert_eq!(packet.dcid, ConnectionId::EMPTY);
                let opened = receiver.open(&mut cache, &mut bytes, &packet, largest);
                assert_eq!(opened.is_ok(), opens, "{number}");
                largest = largest.max(opened.ok().map(|o| o.packet_number));
            }
            assert_eq!(receiver.generation, 2);
        }
    }
}
