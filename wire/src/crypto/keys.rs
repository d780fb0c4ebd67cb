//! Opens and seals packets in place (RFC 9001 5.3, 5.4).

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
    quic,
};

use super::{CipherSuite, KeyMaterial, SuiteMaterial, TAG_LEN, decode_packet_number};
use crate::{Error, OpenError, Packet};

/// AEAD and IV for one direction, ready for use.
pub(super) struct PacketKey {
    pub(super) aead: LessSafeKey,
    iv: [u8; 12],
}

/// Packet and header protection for one direction, ready for use.
pub struct Keys {
    pub(super) packet: PacketKey,
    hp: quic::HeaderProtectionKey,
}

/// A header after the removal of header protection.
pub(super) struct Unprotected {
    pub first_byte: u8,
    pub packet_number: u64,
    pn_len: usize,
    /// Length of the header with the packet number, in bytes.
    pub(super) length: usize,
}

/// Keys for sending packets.
pub trait Seal {
    /// Seals a packet in place. `packet` holds the plain header through the packet number (`pn_len` bytes at
    /// `pn_offset`), the frames, and 16 bytes for the tag.
    fn seal(
        &self,
        packet: &mut [u8],
        pn_offset: usize,
        pn_len: usize,
        packet_number: u64,
    ) -> Result<(), Error>;
}

/// A packet that authenticated.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    pub packet_number: u64,
    /// First byte after the removal of header protection.
    pub first_byte: u8,
    /// Length of the packet number on the wire, in bytes.
    pub pn_len: usize,
    /// False if a reserved bit is set, which is a connection error (RFC 9000 17.2).
    pub reserved_bits_clear: bool,
    /// The frames.
    pub payload: &'a [u8],
}

impl PacketKey {
    /// `key` must have the key length of `algorithm`.
    fn new(algorithm: &'static Algorithm, key: &[u8], iv: [u8; 12]) -> PacketKey {
        let key = UnboundKey::new(algorithm, key).expect("the key has the algorithm's length");
        PacketKey {
            aead: LessSafeKey::new(key),
            iv,
        }
    }

    pub(super) fn nonce(&self, packet_number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (n, p) in nonce[4..].iter_mut().zip(packet_number.to_be_bytes()) {
            *n ^= p;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// Opens a packet after the removal of header protection.
    fn open<'a>(
        &self,
        datagram: &'a mut [u8],
        packet: &Packet,
        header: &Unprotected,
    ) -> Result<Opened<'a>, OpenError> {
        let bytes = datagram
            .get_mut(packet.start..packet.end)
            .ok_or(OpenError::TooShort)?;
        let (head, body) = bytes
            .split_at_mut_checked(header.length)
            .ok_or(OpenError::TooShort)?;
        let payload = self
            .aead
            .open_in_place(self.nonce(header.packet_number), Aad::from(&*head), body)
            .map_err(|_| OpenError::Unauthentic)?;
        let reserved_bits = if header.first_byte & 0x80 != 0 {
            0x0c
        } else {
            0x18
        };
        Ok(Opened {
            packet_number: header.packet_number,
            first_byte: header.first_byte,
            pn_len: header.pn_len,
            reserved_bits_clear: header.first_byte & reserved_bits == 0,
            payload,
        })
    }
}

impl Keys {
    /// Expands the `material` of an Initial into key schedules.
    pub fn new(material: &KeyMaterial) -> Keys {
        let packet = PacketKey::new(&AES_128_GCM, &material.key, material.iv);
        Keys::of(&quic::AES_128, &material.hp, packet)
    }

    /// Expands the `material` of any suite into key schedules.
    pub fn of_suite(material: &SuiteMaterial) -> Keys {
        let (aead, protection) = match material.suite {
            CipherSuite::Aes128GcmSha256 => (&AES_128_GCM, &quic::AES_128),
            CipherSuite::Aes256GcmSha384 => (&AES_256_GCM, &quic::AES_256),
            CipherSuite::ChaCha20Poly1305Sha256 => (&CHACHA20_POLY1305, &quic::CHACHA20),
        };
        let key = &material.key[..aead.key_len()];
        let hp = &material.hp[..protection.key_len()];
        Keys::of(protection, hp, PacketKey::new(aead, key, material.iv))
    }

    /// `hp` must have the key length of `algorithm`.
    fn of(algorithm: &'static quic::Algorithm, hp: &[u8], packet: PacketKey) -> Keys {
        Keys {
            packet,
            hp: quic::HeaderProtectionKey::new(algorithm, hp)
                .expect("the key has the algorithm's length"),
        }
    }

    fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        self.hp
            .new_mask(sample)
            .expect("every algorithm takes a sample of 16 bytes")
    }

    /// Removes the header protection of `packet` in place.
    pub(super) fn unprotect(
        &self,
        datagram: &mut [u8],
        packet: &Packet,
        largest: Option<u64>,
    ) -> Result<Unprotected, OpenError> {
        let bytes = datagram
            .get_mut(packet.start..packet.end)
            .ok_or(OpenError::TooShort)?;
        let pn_offset = packet
            .pn_offset
            .checked_sub(packet.start)
            .ok_or(OpenError::TooShort)?;
        let sample = bytes
            .get(pn_offset..)
            .and_then(|b| b.get(4..))
            .and_then(|b| b.first_chunk::<16>());
        let mask = self.mask(sample.ok_or(OpenError::TooShort)?);
        // Header protection covers four bits of the first byte in long headers, five in short headers (RFC 9001
        // 5.4.1).
        let protected = if bytes[0] & 0x80 != 0 { 0x0f } else { 0x1f };
        bytes[0] ^= mask[0] & protected;
        let pn_len = usize::from(bytes[0] & 3) + 1;
        let mut truncated = 0;
        for (byte, mask) in bytes[pn_offset..pn_offset + pn_len]
            .iter_mut()
            .zip(&mask[1..])
        {
            *byte ^= mask;
            truncated = truncated << 8 | u32::from(*byte);
        }
        Ok(Unprotected {
            first_byte: bytes[0],
            packet_number: decode_packet_number(largest, truncated, pn_len),
            pn_len,
            length: pn_offset + pn_len,
        })
    }

    /// Opens `packet` of `datagram` in place. `largest` is the largest packet number already opened in this packet
    /// number space. An error leaves the packet's bytes unusable: keep a copy to try other keys.
    pub fn open<'a>(
        &self,
        datagram: &'a mut [u8],
        packet: &Packet,
        largest: Option<u64>,
    ) -> Result<Opened<'a>, OpenError> {
        let header = self.unprotect(datagram, packet, largest)?;
        self.open_unprotected(datagram, packet, &header)
    }

    /// Opens a packet after the removal of header protection.
    pub(super) fn open_unprotected<'a>(
        &self,
        datagram: &'a mut [u8],
        packet: &Packet,
        header: &Unprotected,
    ) -> Result<Opened<'a>, OpenError> {
        self.packet.open(datagram, packet, header)
    }

    /// Seals a packet in place; see [`Seal`].
    pub fn seal(
        &self,
        packet: &mut [u8],
        pn_offset: usize,
        pn_len: usize,
        packet_number: u64,
    ) -> Result<(), Error> {
        // The sample starts four bytes after the start of the packet number and must lie inside the packet.
        if !(1..=4).contains(&pn_len) || packet.len() < pn_offset + 4 + TAG_LEN {
            return Err(Error::NoRoom);
        }
        let (header, body) = packet.split_at_mut(pn_offset + pn_len);
        let (plain, tag_place) = body.split_at_mut(body.len() - TAG_LEN);
        let nonce = self.packet.nonce(packet_number);
        let tag = self
            .packet
            .aead
            .seal_in_place_separate_tag(nonce, Aad::from(&*header), plain)
            .map_err(|_| Error::NoRoom)?;
        tag_place.copy_from_slice(tag.as_ref());
        let sample = packet[pn_offset + 4..]
            .first_chunk::<16>()
            .ok_or(Error::NoRoom)?;
        let mask = self.mask(sample);
        packet[0] ^= mask[0] & if packet[0] & 0x80 != 0 { 0x0f } else { 0x1f };
        for (byte, mask) in packet[pn_offset..pn_offset + pn_len]
            .iter_mut()
            .zip(&mask[1..])
        {
            *byte ^= mask;
        }
        Ok(())
    }
}

impl Seal for Keys {
    fn seal(
        &self,
        packet: &mut [u8],
        pn_offset: usize,
        pn_len: usize,
        packet_number: u64,
    ) -> Result<(), Error> {
        Keys::seal(self, packet, pn_offset, pn_len, packet_number)
    }
}
