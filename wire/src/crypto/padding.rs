//! Restores the sealed PADDING at the end of a packet from its keys: sealed zeros are the cipher's key stream.

use ring::aead::Aad;

use super::{Keys, TAG_LEN};
use crate::{OpenError, Packet};

/// Bytes from a packet number's start to the end of the sample for header protection (RFC 9001 5.4.2).
pub const SAMPLE_END: usize = 20;

impl Keys {
    /// Restores sealed PADDING: the `length` bytes before the tag of `packet`, which were zeros before sealing. The
    /// current values of these bytes do not matter. `work` is scratch memory for a copy.
    ///
    /// Returns `TooShort` if the packet has no room for `length` bytes after the header protection sample, and
    /// `Unauthentic` if the tag does not match such a packet. On an error, the datagram does not change.
    pub fn seal_padding(
        &self,
        datagram: &mut [u8],
        packet: &Packet,
        length: usize,
        work: &mut Vec<u8>,
    ) -> Result<(), OpenError> {
        let short = OpenError::TooShort;
        let bytes = datagram.get_mut(packet.start..packet.end).ok_or(short)?;
        let pn_offset = packet.pn_offset.checked_sub(packet.start).ok_or(short)?;
        let end = bytes.len().checked_sub(TAG_LEN).ok_or(short)?;
        let start = end.checked_sub(length).ok_or(short)?;
        if start < pn_offset.saturating_add(SAMPLE_END) {
            return Err(short);
        }
        work.clear();
        work.extend_from_slice(&bytes[..start]);
        work.resize(end, 0);
        let inside = Packet {
            start: 0,
            end,
            pn_offset,
            ..packet.clone()
        };
        let header = self.unprotect(work, &inside, None)?;
        let (head, plain) = work.split_at_mut(header.length);
        let padding = start - header.length;
        let seal = |plain: &mut [u8]| {
            let nonce = self.packet.nonce(header.packet_number);
            self.packet
                .aead
                .seal_in_place_separate_tag(nonce, Aad::from(&*head), plain)
                .map_err(|_| short)
        };
        // Counter mode is its own inverse, so sealing opens the bytes before the PADDING.
        let _ = seal(&mut plain[..padding])?;
        let tag = seal(plain)?;
        if tag.as_ref() != &bytes[end..] {
            return Err(OpenError::Unauthentic);
        }
        bytes[start..end].copy_from_slice(&plain[padding..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectionId, InitialSecret, LongHeader, Version, build_packet, parse_packet};

    /// Number of bytes in the datagram before the Initial.
    const BEFORE: usize = 5;

    /// Returns a datagram with an Initial of `size` bytes after [`BEFORE`] other bytes, and the Initial's keys. Its
    /// payload starts with `plain` PING frames. Its packet number has `pn_len` bytes.
    fn sealed(plain: usize, size: usize, pn_len: usize) -> (Vec<u8>, Packet, Keys) {
        let cid = ConnectionId::from([7; 8]);
        let keys = Keys::new(&InitialSecret::new(Version::V1, &cid).unwrap().client());
        let header = LongHeader {
            pn_len,
            ..LongHeader::initial(Version::V1, cid, ConnectionId::EMPTY, 3)
        };
        let mut out = vec![0; BEFORE + size];
        let payload = vec![1; plain];
        let written = build_packet(&mut out[BEFORE..], &header, &keys, Some(size), |w| {
            w.bytes(&payload)
        });
        assert_eq!(written, Ok(size));
        let packet = parse_packet(&out, BEFORE, 0).unwrap();
        (out, packet, keys)
    }

    #[test]
    fn padding_comes_back_to_the_byte() {
        let sizes = [(1, 60), (4, 200), (300, 1252), (20, 1200)];
        for ((plain, size), pn_len) in sizes.into_iter().flat_map(|s| (1..=4).map(move |n| (s, n)))
        {
            let (whole, packet, keys) = sealed(plain, size, pn_len);
            let payload = {
                let mut copy = whole.clone();
                keys.open(&mut copy, &packet, None)
                    .unwrap()
                    .payload
                    .to_vec()
            };
            let zeros = payload.iter().rev().take_while(|byte| **byte == 0).count();
            let end = whole.len() - TAG_LEN;
            let room = end - packet.pn_offset - SAMPLE_END;
            for length in [0, 1, room.min(zeros) / 2, room.min(zeros)] {
                let mut left = whole.clone();
                left[end - length..end].fill(0xee);
                let done = keys.seal_padding(&mut left, &packet, length, &mut Vec::new());
                assert_eq!((done, left), (Ok(()), whole.clone()), "{length} of {size}");
            }
        }
    }

    #[test]
    fn what_was_no_padding_or_is_damaged_does_not_authenticate() {
        let (whole, packet, keys) = sealed(300, 400, 1);
        let end = whole.len() - TAG_LEN;
        let zeros = end - packet.pn_offset - 1 - 300;
        let mut work = Vec::new();
        let mut done = |bytes: &[u8], length| {
            let mut copy = bytes.to_vec();
            let done = keys.seal_padding(&mut copy, &packet, length, &mut work);
            assert_eq!(copy, bytes, "whole before, or left as it is");
            done
        };
        assert!(zeros > 10);
        assert_eq!(done(&whole, zeros), Ok(()));
        // The byte before the PADDING is PING.
        assert_eq!(done(&whole, zeros + 1), Err(OpenError::Unauthentic));
        for at in (BEFORE..packet.pn_offset + 20).chain(end..whole.len()) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert_eq!(done(&bytes, zeros), Err(OpenError::Unauthentic), "{at}");
        }
    }

    #[test]
    fn the_sample_of_header_protection_must_be_there() {
        let (whole, packet, keys) = sealed(1, 100, 1);
        let room = whole.len() - TAG_LEN - packet.pn_offset - SAMPLE_END;
        let mut work = Vec::new();
        let mut done =
            |bytes: &mut [u8], packet, length| keys.seal_padding(bytes, packet, length, &mut work);
        assert_eq!(done(&mut whole.clone(), &packet, room), Ok(()));
        for length in [room + 1, 100, usize::MAX] {
            let short = Err(OpenError::TooShort);
            assert_eq!(done(&mut whole.clone(), &packet, length), short);
        }
        let short = Err(OpenError::TooShort);
        assert_eq!(
            done(&mut whole[..whole.len() - 1].to_vec(), &packet, 1),
            short
        );
        let mut outside = packet.clone();
        outside.start = outside.pn_offset + 1;
        assert_eq!(done(&mut whole.clone(), &outside, 1), short);
    }
}
