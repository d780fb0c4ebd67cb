//! Keys from traffic secrets, for another version than the ClientHello's (RFC 9368 2.3). The TLS library makes keys
//! only for the version of the ClientHello. This module also makes the keys of Initials, which `wire` derives without
//! allocations.

use aws_lc_rs::aead::quic::{self as masks, HeaderProtectionKey as Mask};
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use firstflight_wire::{
    CipherSuite, ConnectionId, InitialSecret, KeyMaterial, SuiteMaterial, TrafficSecret, Version,
};
use rustls::Error;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Tag};

/// The secrets of both directions.
#[derive(Clone, Copy)]
pub struct OwnSecrets {
    client: TrafficSecret,
    server: TrafficSecret,
}

impl OwnSecrets {
    /// Takes the secrets of the client and the server, for the cipher suite number `suite`. Returns `None` if the suite
    /// is unknown or the secrets do not fit the suite.
    pub fn new(
        version: Version,
        suite: u16,
        [client, server]: &[Vec<u8>; 2],
    ) -> Option<OwnSecrets> {
        let suite = CipherSuite::from_number(suite)?;
        Some(OwnSecrets {
            client: TrafficSecret::new(version, suite, client)?,
            server: TrafficSecret::new(version, suite, server)?,
        })
    }

    /// Returns a client's keys.
    pub fn keys(&self) -> Option<Keys> {
        Some(Keys {
            local: directional(&self.client)?,
            remote: directional(&self.server)?,
        })
    }

    /// Replaces the secrets by the secrets after a key update, and returns the new keys.
    pub fn next_packet_keys(&mut self) -> Option<PacketKeySet> {
        self.client = self.client.next();
        self.server = self.server.next();
        Some(PacketKeySet {
            local: Box::new(Payload::new(&self.client)?),
            remote: Box::new(Payload::new(&self.server)?),
        })
    }
}

/// Returns a client's keys of Initials to `destination` (RFC 9001 5.2, RFC 9369 3.3), or `None` if the version is
/// unknown.
pub fn initial(version: Version, destination: &ConnectionId) -> Option<Keys> {
    let secret = InitialSecret::new(version, destination)?;
    Some(Keys {
        local: of_initials(&secret.client())?,
        remote: of_initials(&secret.server())?,
    })
}

fn of_initials(material: &KeyMaterial) -> Option<DirectionalKeys> {
    let key = UnboundKey::new(&aead::AES_128_GCM, &material.key).ok()?;
    Some(DirectionalKeys {
        header: Box::new(Header(Mask::new(&masks::AES_128, &material.hp).ok()?)),
        packet: Box::new(Payload {
            key: LessSafeKey::new(key),
            iv: material.iv,
        }),
    })
}

fn directional(secret: &TrafficSecret) -> Option<DirectionalKeys> {
    let material = secret.material();
    let algorithm = match secret.suite() {
        CipherSuite::Aes128GcmSha256 => &masks::AES_128,
        CipherSuite::Aes256GcmSha384 => &masks::AES_256,
        CipherSuite::ChaCha20Poly1305Sha256 => &masks::CHACHA20,
    };
    Some(DirectionalKeys {
        header: Box::new(Header(Mask::new(algorithm, material.hp()).ok()?)),
        packet: Box::new(Payload::of(secret.suite(), &material)?),
    })
}

/// Header protection (RFC 9001 5.4).
struct Header(Mask);

impl Header {
    fn apply(
        &self,
        sample: &[u8],
        first: &mut u8,
        numbers: &mut [u8],
        was_protected: bool,
    ) -> Result<(), Error> {
        let mask = self.0.new_mask(sample).map_err(|_| Error::DecryptError)?;
        let bits = if *first & 0x80 != 0 { 0x0f } else { 0x1f };
        let unmasked = *first ^ (mask[0] & bits);
        let plain = if was_protected { unmasked } else { *first };
        *first = unmasked;
        let length = usize::from(plain & 3) + 1;
        for (byte, mask) in numbers.iter_mut().take(length).zip(&mask[1..]) {
            *byte ^= mask;
        }
        Ok(())
    }
}

impl HeaderProtectionKey for Header {
    fn encrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        self.apply(sample, first, packet_number, false)
    }

    fn decrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        self.apply(sample, first, packet_number, true)
    }

    fn sample_len(&self) -> usize {
        self.0.algorithm().sample_len()
    }
}

/// The AEAD of packets (RFC 9001 5.3).
struct Payload {
    key: LessSafeKey,
    iv: [u8; 12],
}

impl Payload {
    fn new(secret: &TrafficSecret) -> Option<Payload> {
        Payload::of(secret.suite(), &secret.material())
    }

    fn of(suite: CipherSuite, material: &SuiteMaterial) -> Option<Payload> {
        let algorithm = match suite {
            CipherSuite::Aes128GcmSha256 => &aead::AES_128_GCM,
            CipherSuite::Aes256GcmSha384 => &aead::AES_256_GCM,
            CipherSuite::ChaCha20Poly1305Sha256 => &aead::CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(algorithm, material.key()).ok()?;
        Some(Payload {
            key: LessSafeKey::new(key),
            iv: material.iv(),
        })
    }

    fn nonce(&self, packet_number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(packet_number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl PacketKey for Payload {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        let nonce = self.nonce(packet_number);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), payload)
            .map_err(|_| Error::EncryptError)?;
        Ok(Tag::from(tag.as_ref()))
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let nonce = self.nonce(packet_number);
        let plain = self
            .key
            .open_in_place(nonce, Aad::from(header), payload)
            .map_err(|_| Error::DecryptError)?;
        Ok(plain)
    }

    fn tag_len(&self) -> usize {
        self.key.algorithm().tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        // RFC 9001 6.6. Our connections send some dozens of packets.
        1 << 23
    }

    fn integrity_limit(&self) -> u64 {
        1 << 36
    }
}
