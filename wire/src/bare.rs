//! Packet headers in a trimmed capture that holds no packet number or payload.

use crate::Reader;
use crate::packet::{Packet, PacketType, begin};

/// Returns the Handshake, 0-RTT or 1-RTT packet at `start`. It must fill the rest of a datagram that had `length`
/// bytes on the wire, and `datagram` must stop exactly before its packet number. `short_dcid_len` and the result
/// are as for [`parse_packet`](crate::parse_packet) with the whole datagram. Returns `None` in all other cases.
pub fn parse_bare_header(
    datagram: &[u8],
    start: usize,
    short_dcid_len: usize,
    length: usize,
) -> Option<Packet> {
    let mut r = Reader::new(datagram.get(start..)?);
    let mut packet = begin(&mut r, start, datagram.len(), short_dcid_len).ok()?;
    let rest = match packet.kind {
        PacketType::OneRtt => length.checked_sub(datagram.len())?,
        PacketType::Handshake | PacketType::ZeroRtt => usize::try_from(r.varint().ok()?).ok()?,
        _ => return None,
    };
    packet.pn_offset = datagram.len();
    packet.end = datagram.len().checked_add(rest)?;
    (r.is_empty() && rest > 0 && packet.end == length).then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectionId, Version, parse_packet};

    /// A long header of type `bits`, followed by `rest` bytes.
    fn long(bits: u8, rest: u16) -> Vec<u8> {
        let mut bytes = vec![0xc0 | bits << 4];
        bytes.extend(Version::V1.0.to_be_bytes());
        bytes.extend([2, 7, 8, 1, 9]);
        bytes.extend((0x4000 | rest).to_be_bytes());
        bytes.extend(vec![0xaa; usize::from(rest)]);
        bytes
    }

    #[test]
    fn a_bare_header_gives_what_the_whole_packet_gives() {
        for bits in [1, 2] {
            let whole = [vec![0; 5], long(bits, 50)].concat();
            let expected = parse_packet(&whole, 5, 0).unwrap();
            for kept in 0..=whole.len() {
                let found = parse_bare_header(&whole[..kept], 5, 0, whole.len());
                let is_bare = kept == expected.pn_offset;
                assert_eq!(found, is_bare.then(|| expected.clone()), "{kept}");
            }
        }
        let whole = [&[0x43, 1, 2, 3][..], &[0xaa; 30]].concat();
        let expected = parse_packet(&whole, 0, 3).unwrap();
        assert_eq!(
            parse_bare_header(&whole[..4], 0, 3, 34),
            Some(expected.clone())
        );
        assert_eq!(expected.dcid, ConnectionId::new(&[1, 2, 3]).unwrap());
        for (kept, length) in [(3, 34), (5, 34), (4, 4), (4, 3)] {
            assert_eq!(parse_bare_header(&whole[..kept], 0, 3, length), None);
        }
    }

    #[test]
    fn a_packet_that_does_not_end_with_the_datagram_is_not_bare() {
        let header = &long(2, 50)[..12];
        let length = header.len() + 50;
        assert!(parse_bare_header(header, 0, 0, length).is_some());
        for other in [length - 1, length + 1, header.len(), 0, usize::MAX] {
            assert_eq!(parse_bare_header(header, 0, 0, other), None);
        }
        assert_eq!(parse_bare_header(&long(2, 0), 0, 0, 12), None);
    }

    #[test]
    fn initials_retries_and_other_versions_are_never_bare() {
        for bits in [0, 3] {
            let whole = long(bits, 50);
            for kept in 0..whole.len() {
                assert_eq!(parse_bare_header(&whole[..kept], 0, 0, whole.len()), None);
            }
        }
        for version in [Version::NEGOTIATION, Version(0x1a2a_3a4a)] {
            let mut whole = long(2, 50);
            whole[1..5].copy_from_slice(&version.0.to_be_bytes());
            for kept in 0..whole.len() {
                assert_eq!(parse_bare_header(&whole[..kept], 0, 0, whole.len()), None);
            }
        }
    }
}
