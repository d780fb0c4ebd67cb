//! Parses only a packet's destination connection ID and end, for packets that are only counted.

use crate::packet::PacketType;
use crate::{MAX_CID_LEN, Reader, Version};

/// A Handshake, 0-RTT or 1-RTT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skimmed<'a> {
    /// Destination connection ID. `None` in a short header, which does not contain the length.
    pub dcid: Option<&'a [u8]>,
    /// Offset after the last byte of the packet.
    pub end: usize,
}

/// Returns the packet at `start` if it is a Handshake, 0-RTT or 1-RTT packet with a header that
/// [`parse_packet`](crate::parse_packet) accepts. The length of the connection ID in a short header does not
/// matter.
pub fn skim(datagram: &[u8], start: usize) -> Option<Skimmed<'_>> {
    let bytes = datagram.get(start..)?;
    let (&first, rest) = bytes.split_first()?;
    if first & 0x40 == 0 {
        return None;
    }
    if first & 0x80 == 0 {
        return (rest.len() >= MAX_CID_LEN).then_some(Skimmed {
            dcid: None,
            end: datagram.len(),
        });
    }
    let mut r = Reader::new(rest);
    let family = Version(r.u32().ok()?).family()?;
    let kind = PacketType::from_bits(first >> 4, family);
    if !matches!(kind, PacketType::Handshake | PacketType::ZeroRtt) {
        return None;
    }
    let (dcid, scid) = (r.vec8().ok()?, r.vec8().ok()?);
    if dcid.len().max(scid.len()) > MAX_CID_LEN {
        return None;
    }
    r.varint_bytes().ok()?;
    Some(Skimmed {
        dcid: Some(dcid),
        end: datagram.len() - r.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_packet;

    /// Returns a long header of type `bits`, with connection IDs of 2 and `scid` bytes, 3 length bytes and `rest`
    /// other bytes.
    fn long(bits: u8, version: u32, scid: u8, rest: usize) -> Vec<u8> {
        let mut bytes = vec![0xc0 | bits << 4];
        bytes.extend(version.to_be_bytes());
        bytes.extend([2, 7, 8, scid]);
        bytes.extend(vec![9; usize::from(scid)]);
        bytes.extend([3, 1, 2, 3]);
        bytes.extend(vec![0; rest]);
        bytes
    }

    #[test]
    fn what_is_skimmed_parses_to_the_same_end() {
        let mut taken = 0;
        for bits in 0..4 {
            for version in [0, 1, 0x6b33_43cf, 0xff00_001d, 0x0a0a_0a0a] {
                for scid in [0, 8, 20, 21] {
                    let whole = long(bits, version, scid, 2);
                    for cut in 0..=whole.len() {
                        let bytes = &whole[..cut];
                        let Some(skimmed) = skim(bytes, 0) else {
                            continue;
                        };
                        let packet = parse_packet(bytes, 0, 0).unwrap();
                        assert_eq!(skimmed.end, packet.end);
                        assert_eq!(skimmed.dcid, Some(packet.dcid.as_slice()));
                        assert!(matches!(
                            packet.kind,
                            PacketType::Handshake | PacketType::ZeroRtt
                        ));
                        taken += 1;
                    }
                }
            }
        }
        // Two types, three versions, three lengths; each complete, and without the last one or two bytes.
        assert_eq!(taken, 2 * 3 * 3 * 3);
    }

    #[test]
    fn short_headers_must_have_room_for_any_connection_id() {
        let bytes = [0x40; 22];
        let short = Some(Skimmed {
            dcid: None,
            end: 22,
        });
        assert_eq!(skim(&bytes, 1), short);
        assert!(parse_packet(&bytes, 1, MAX_CID_LEN).is_ok());
        assert_eq!(skim(&bytes, 2), None);
        assert_eq!(skim(&[0x20; 40], 0), None);
        assert_eq!(skim(&[], 0), None);
    }
}
