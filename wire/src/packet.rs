//! Packet headers without the fields that need keys (RFC 9000 17, RFC 8999), and coalesced packets (RFC 9000 12.2).

use std::ops::Range;

use crate::version::Family;
use crate::{ConnectionId, Error, Reader, Version, Writer};

/// Packet types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketType {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    VersionNegotiation,
    /// Short header: 1-RTT.
    OneRtt,
    /// Long header of an unknown version. The packet fills the datagram.
    UnknownVersion,
}

impl PacketType {
    /// Returns the name for messages and records.
    pub fn name(self) -> &'static str {
        match self {
            PacketType::Initial => "initial",
            PacketType::ZeroRtt => "0rtt",
            PacketType::Handshake => "handshake",
            PacketType::Retry => "retry",
            PacketType::VersionNegotiation => "version_negotiation",
            PacketType::OneRtt => "1rtt",
            PacketType::UnknownVersion => "unknown_version",
        }
    }

    /// Returns the two type bits in a long header of `family`; `None` for a type without them.
    fn bits(self, family: Family) -> Option<u8> {
        let v1 = match self {
            PacketType::Initial => 0,
            PacketType::ZeroRtt => 1,
            PacketType::Handshake => 2,
            PacketType::Retry => 3,
            _ => return None,
        };
        // RFC 9369 3.2 rotates the codes by one.
        Some(if family == Family::V2 {
            (v1 + 1) & 3
        } else {
            v1
        })
    }

    pub(crate) fn from_bits(bits: u8, family: Family) -> PacketType {
        match if family == Family::V2 {
            bits.wrapping_sub(1) & 3
        } else {
            bits & 3
        } {
            0 => PacketType::Initial,
            1 => PacketType::ZeroRtt,
            2 => PacketType::Handshake,
            _ => PacketType::Retry,
        }
    }
}

/// A packet's position in the datagram, and unprotected header fields. The positions are offsets instead of
/// borrows, so that packets can be opened in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub kind: PacketType,
    /// First byte as on the wire (partly protected).
    pub first_byte: u8,
    /// 0 in a short header.
    pub version: Version,
    pub dcid: ConnectionId,
    /// Empty in a short header.
    pub scid: ConnectionId,
    /// Offset of the first byte in the datagram.
    pub start: usize,
    /// Offset after the last byte; the next packet starts here.
    pub end: usize,
    /// Offset of the packet number. In Retry and Version Negotiation packets, the offset after the connection IDs.
    pub pn_offset: usize,
    /// Token of an Initial or a Retry, as offsets in the datagram.
    pub token: Range<usize>,
}

impl Packet {
    /// Returns the packet's size in bytes.
    pub fn size(&self) -> usize {
        self.end - self.start
    }

    /// Returns the token's bytes from the datagram of the packet; empty without a token.
    pub fn token<'a>(&self, datagram: &'a [u8]) -> &'a [u8] {
        datagram.get(self.token.clone()).unwrap_or_default()
    }

    /// Returns the versions in a Version Negotiation packet. A partial version at the end is malformed.
    pub fn versions<'a>(
        &self,
        datagram: &'a [u8],
    ) -> Result<impl Iterator<Item = Version> + 'a, Error> {
        let list = datagram
            .get(self.pn_offset..self.end)
            .ok_or(Error::Truncated)?;
        let (versions, rest) = list.as_chunks::<4>();
        if self.kind != PacketType::VersionNegotiation || versions.is_empty() || !rest.is_empty() {
            return Err(Error::Malformed("version negotiation list"));
        }
        Ok(versions.iter().map(|v| Version(u32::from_be_bytes(*v))))
    }
}

/// Parses the packet at `start` in `datagram`. `short_dcid_len` is the connection ID's length in short headers, which
/// do not contain it. After an error, the rest of the datagram cannot be parsed.
pub fn parse_packet(datagram: &[u8], start: usize, short_dcid_len: usize) -> Result<Packet, Error> {
    let mut r = Reader::new(datagram.get(start..).ok_or(Error::Truncated)?);
    let packet = begin(&mut r, start, datagram.len(), short_dcid_len)?;
    finish(packet, r, datagram.len())
}

/// Like [`parse_packet`], but for a packet without the fixed bit; a packet with it is malformed. Endpoints that have
/// sent `grease_quic_bit` can receive such packets (RFC 9287 3). Arbitrary bytes may look like one.
pub fn parse_greased_packet(
    datagram: &[u8],
    start: usize,
    short_dcid_len: usize,
) -> Result<Packet, Error> {
    let mut r = Reader::new(datagram.get(start..).ok_or(Error::Truncated)?);
    let packet = begin_either(&mut r, start, datagram.len(), short_dcid_len)?;
    if packet.first_byte & FIXED_BIT != 0 {
        return Err(Error::Malformed("fixed bit"));
    }
    finish(packet, r, datagram.len())
}

/// Parses the fields of `packet` between the connection IDs and the packet number. `length` is the length of the
/// datagram.
#[inline(always)]
fn finish(mut packet: Packet, mut r: Reader<'_>, length: usize) -> Result<Packet, Error> {
    let offset = |r: &Reader<'_>| length - r.len();
    match packet.kind {
        PacketType::OneRtt | PacketType::VersionNegotiation | PacketType::UnknownVersion => {
            return Ok(packet);
        }
        PacketType::Retry if packet.version.family().is_some_and(Family::repeats_odcid) => {
            r.vec8()?;
            packet.token = offset(&r)..packet.end;
            return Ok(packet);
        }
        PacketType::Retry => {
            let end = packet
                .end
                .checked_sub(crate::crypto::TAG_LEN)
                .filter(|&end| end >= packet.pn_offset);
            packet.token = packet.pn_offset..end.ok_or(Error::Truncated)?;
            return Ok(packet);
        }
        PacketType::Initial => {
            let token = r.varint_bytes()?;
            packet.token = offset(&r) - token.len()..offset(&r);
        }
        PacketType::ZeroRtt | PacketType::Handshake => {}
    }
    let body = r.varint_bytes()?;
    packet.end = offset(&r);
    packet.pn_offset = packet.end - body.len();
    Ok(packet)
}

/// Parses the packet at `start` in a datagram that the capture truncated. It returns type, version and connection
/// IDs in a long header with a known version. The packet extends to the end of the datagram; its `pn_offset` is the
/// offset after the connection IDs. Returns `None` if these fields are incomplete.
pub fn parse_cut_header(datagram: &[u8], start: usize) -> Option<Packet> {
    let mut r = Reader::new(datagram.get(start..)?);
    let packet = begin(&mut r, start, datagram.len(), 0).ok()?;
    packet.version.family().map(|_| packet)
}

/// The bit that is set in every packet of version 1 and 2 (RFC 9000 17.2, 17.3).
const FIXED_BIT: u8 = 0x40;

/// Parses a header through the connection IDs (RFC 8999 5), and determines the packet type.
// Inlined because every packet is parsed with it.
#[inline(always)]
pub(crate) fn begin(
    r: &mut Reader<'_>,
    start: usize,
    end: usize,
    short_dcid_len: usize,
) -> Result<Packet, Error> {
    let packet = begin_either(r, start, end, short_dcid_len)?;
    let has_fixed_bit = !matches!(
        packet.kind,
        PacketType::VersionNegotiation | PacketType::UnknownVersion
    );
    if has_fixed_bit && packet.first_byte & FIXED_BIT == 0 {
        return Err(Error::Malformed("fixed bit"));
    }
    Ok(packet)
}

/// Like [`begin`], but ignores the fixed bit.
#[inline(always)]
fn begin_either(
    r: &mut Reader<'_>,
    start: usize,
    end: usize,
    short_dcid_len: usize,
) -> Result<Packet, Error> {
    let first_byte = r.u8()?;
    let mut packet = Packet {
        kind: PacketType::OneRtt,
        first_byte,
        version: Version(0),
        dcid: ConnectionId::EMPTY,
        scid: ConnectionId::EMPTY,
        start,
        end,
        pn_offset: 0,
        token: 0..0,
    };
    if first_byte & 0x80 == 0 {
        packet.dcid = ConnectionId::new(r.bytes(short_dcid_len)?)?;
        packet.pn_offset = end - r.len();
        return Ok(packet);
    }
    packet.version = Version(r.u32()?);
    packet.dcid = ConnectionId::new(r.vec8()?)?;
    packet.scid = ConnectionId::new(r.vec8()?)?;
    packet.pn_offset = end - r.len();
    if packet.version == Version::NEGOTIATION {
        packet.kind = PacketType::VersionNegotiation;
        return Ok(packet);
    }
    let Some(family) = packet.version.family() else {
        packet.kind = PacketType::UnknownVersion;
        return Ok(packet);
    };
    packet.kind = PacketType::from_bits(first_byte >> 4, family);
    Ok(packet)
}

/// Iterates over the packets in a datagram, in order. Stops after the first error.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    datagram: &'a [u8],
    at: usize,
    short_dcid_len: usize,
}

impl<'a> Packets<'a> {
    /// `short_dcid_len` as in [`parse_packet`].
    pub fn new(datagram: &'a [u8], short_dcid_len: usize) -> Self {
        Packets {
            datagram,
            at: 0,
            short_dcid_len,
        }
    }
}

impl Iterator for Packets<'_> {
    type Item = Result<Packet, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.datagram.len() {
            return None;
        }
        let packet = parse_packet(self.datagram, self.at, self.short_dcid_len);
        self.at = packet.as_ref().map_or(self.datagram.len(), |p| p.end);
        Some(packet)
    }
}

/// Writes a long header through the connection IDs. `low_bits` are the four bits after the type.
pub(crate) fn write_long_header(
    w: &mut Writer<'_>,
    kind: PacketType,
    version: Version,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    low_bits: u8,
) -> Result<(), Error> {
    let bits = version
        .family()
        .and_then(|f| kind.bits(f))
        .ok_or(Error::Malformed("packet type or version"))?;
    w.u8(0xc0 | bits << 4 | low_bits & 0x0f)?;
    w.u32(version.0)?;
    w.vec8(dcid.as_slice())?;
    w.vec8(scid.as_slice())
}

/// Writes a Version Negotiation packet (RFC 9000 17.2.1) and returns the size. `unused` fills the seven unused
/// bits.
pub fn write_version_negotiation(
    out: &mut [u8],
    dcid: &ConnectionId,
    scid: &ConnectionId,
    versions: &[Version],
    unused: u8,
) -> Result<usize, Error> {
    let mut w = Writer::new(out);
    w.u8(0x80 | unused)?;
    w.u32(Version::NEGOTIATION.0)?;
    w.vec8(dcid.as_slice())?;
    w.vec8(scid.as_slice())?;
    versions.iter().try_for_each(|v| w.u32(v.0))?;
    Ok(w.position())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_negotiation_round_trip() {
        let (dcid, scid) = (
            ConnectionId::from([1; 8]),
            ConnectionId::new(&[2; 5]).unwrap(),
        );
        let mut out = [0; 64];
        let n = write_version_negotiation(
            &mut out,
            &dcid,
            &scid,
            &[Version::V2, Version(0x1a2a_3a4a)],
            0,
        )
        .unwrap();
        let p = parse_packet(&out[..n], 0, 0).unwrap();
        assert_eq!(
            (p.kind, p.dcid, p.scid),
            (PacketType::VersionNegotiation, dcid, scid)
        );
        assert_eq!(
            p.versions(&out[..n]).unwrap().collect::<Vec<_>>(),
            [Version::V2, Version(0x1a2a_3a4a)]
        );
        assert!(
            parse_packet(&out[..n - 1], 0, 0)
                .unwrap()
                .versions(&out[..n - 1])
                .is_err()
        );
    }

    #[test]
    fn broken_headers_are_errors() {
        assert_eq!(parse_packet(&[], 0, 0), Err(Error::Truncated));
        assert_eq!(
            parse_packet(&[0xc0, 0, 0, 0, 1, 21], 0, 0),
            Err(Error::Truncated)
        );
        let mut long_cid = vec![0xc0, 0, 0, 0, 1, 21];
        long_cid.extend([0; 40]);
        assert_eq!(
            parse_packet(&long_cid, 0, 0),
            Err(Error::Malformed("connection ID length"))
        );
        assert_eq!(
            parse_packet(&[0x20, 0, 0], 0, 0),
            Err(Error::Malformed("fixed bit"))
        );
        // A length field that exceeds the datagram.
        assert_eq!(
            parse_packet(&[0xc0, 0, 0, 0, 1, 0, 0, 0, 0x7f, 0xff, 1], 0, 0),
            Err(Error::Truncated)
        );
    }

    #[test]
    fn without_fixed_bit_the_rest_is_read_as_with_it() {
        let short = [&[0x43, 7, 8][..], &[0; 30]].concat();
        let mut parsed = 0;
        for (bits, is_long) in [(0, true), (1, true), (2, true), (3, true), (0, false)] {
            let whole = if is_long {
                let mut bytes = vec![0xc3 | bits << 4, 0, 0, 0, 1, 2, 7, 8, 1, 9];
                bytes.extend(if bits == 0 { &[0, 30][..] } else { &[30] });
                bytes.extend([0; 30]);
                bytes
            } else {
                short.clone()
            };
            let greased = [&[whole[0] & !0x40], &whole[1..]].concat();
            for end in 0..=whole.len() {
                let (whole, greased) = (&whole[..end], &greased[..end]);
                let expected = parse_packet(whole, 0, 2).map(|packet| Packet {
                    first_byte: packet.first_byte & !0x40,
                    ..packet
                });
                assert_eq!(
                    parse_greased_packet(greased, 0, 2),
                    expected,
                    "{bits} {end}"
                );
                assert!(
                    parse_packet(greased, 0, 2).is_err()
                        && parse_greased_packet(whole, 0, 2).is_err()
                );
                parsed += usize::from(expected.is_ok());
            }
        }
        assert!(parsed > 5);
    }

    #[test]
    fn a_cut_header_gives_what_the_whole_packet_gives() {
        let mut bytes = vec![0xc3, 0, 0, 0, 1, 2, 7, 8, 1, 9, 0, 0x44, 0x00];
        bytes.extend([0; 0x400]);
        let whole = parse_packet(&bytes, 0, 0).unwrap();
        for cut in 0..bytes.len() {
            let left = parse_cut_header(&bytes[..cut], 0);
            assert_eq!(left.is_some(), cut >= 10, "{cut}");
            let Some(left) = left else { continue };
            assert_eq!(
                (left.kind, left.version, left.dcid, left.scid, left.end),
                (
                    PacketType::Initial,
                    whole.version,
                    whole.dcid,
                    whole.scid,
                    cut
                )
            );
        }
        // A short header, Version Negotiation, an unknown version.
        for header in [
            &[0x43, 1, 2][..],
            &[0x80, 0, 0, 0, 0, 0, 0],
            &[0xc0, 9, 9, 9, 9, 0, 0],
        ] {
            assert_eq!(parse_cut_header(header, 0), None);
        }
    }

    #[test]
    fn retry_shorter_than_its_tag_is_truncated() {
        let mut bytes = vec![0xf0, 0, 0, 0, 1, 0, 0];
        bytes.extend([0; 15]);
        assert_eq!(parse_packet(&bytes, 0, 0), Err(Error::Truncated));
    }
}
