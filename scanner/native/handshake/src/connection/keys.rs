//! Packet protection by the keys of the TLS library (RFC 9001 5.3, 5.4), of all three spaces.

use firstflight_wire::{Error, Packet, Seal, TAG_LEN, decode_packet_number};
use rustls::quic::{DirectionalKeys, Keys};

/// Keys of one space, ours and the server's.
pub struct SpaceKeys(Keys);

/// Our keys of 0-RTT packets.
pub struct EarlyKeys(pub DirectionalKeys);

/// A packet that authenticated: its number and where its frames lie in the datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    pub number: u64,
    pub frames: std::ops::Range<usize>,
    /// False: a connection error (RFC 9000 17.2, 17.3.1).
    pub reserved_bits_clear: bool,
}

impl From<Keys> for SpaceKeys {
    fn from(keys: Keys) -> Self {
        SpaceKeys(keys)
    }
}

impl SpaceKeys {
    /// Opens a packet of the server in place; `largest` is the largest number opened before in this space.
    /// `None`: it does not authenticate, and its bytes are of no more use.
    pub fn open(
        &self,
        datagram: &mut [u8],
        packet: &Packet,
        largest: Option<u64>,
    ) -> Option<Opened> {
        let DirectionalKeys {
            header: protection,
            packet: aead,
        } = &self.0.remote;
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
        let length = aead.decrypt_in_place(number, header, payload).ok()?.len();
        let start = packet.start + pn_offset + pn_len;
        let reserved = if first_byte & 0x80 != 0 { 0x0c } else { 0x18 };
        Some(Opened {
            number,
            frames: start..start + length,
            reserved_bits_clear: first_byte & reserved == 0,
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
        seal(&self.0.local, packet, pn_offset, pn_len, packet_number)
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

/// Protects a packet by these keys; see [`Seal::seal`].
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
