//! Builds whole protected packets (RFC 9000 17.2.2, 17.2.4, 17.3.1; 14.1 for padding).

use crate::crypto::TAG_LEN;
use crate::packet::write_long_header;
use crate::{ConnectionId, Error, PacketType, Seal, Version, Writer};

/// Header fields of an Initial or Handshake packet from a client or a server.
#[derive(Clone, Copy, Debug)]
pub struct LongHeader<'a> {
    pub kind: PacketType,
    pub version: Version,
    pub dcid: ConnectionId,
    pub scid: ConnectionId,
    /// Token of an Initial, from a Retry or NEW_TOKEN. Servers send no token.
    pub token: &'a [u8],
    pub packet_number: u64,
    /// Length of the packet number on the wire, 1 to 4 bytes.
    pub pn_len: usize,
}

impl<'a> LongHeader<'a> {
    /// Returns an Initial's header. The packet number has one byte if it fits, else four.
    pub fn initial(
        version: Version,
        dcid: ConnectionId,
        scid: ConnectionId,
        packet_number: u64,
    ) -> LongHeader<'a> {
        let pn_len = if packet_number < 128 { 1 } else { 4 };
        LongHeader {
            kind: PacketType::Initial,
            version,
            dcid,
            scid,
            token: &[],
            packet_number,
            pn_len,
        }
    }
}

/// Writes one packet to the front of `out` and seals it; returns the size.
///
/// `frames` writes the payload. With `pad_to`, PADDING fills the packet to exactly that size. (A client's datagram
/// with an Initial needs at least 1200 bytes, summed over its packets.) Without `pad_to`, PADDING is added only as
/// needed for the header protection sample. Returns [`Error::NoRoom`] if the frames do not fit into `pad_to` or
/// `out`.
pub fn build_packet(
    out: &mut [u8],
    header: &LongHeader<'_>,
    keys: &impl Seal,
    pad_to: Option<usize>,
    frames: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
) -> Result<usize, Error> {
    let (pn_offset, plain_end) = {
        let room = out.len().checked_sub(TAG_LEN).ok_or(Error::NoRoom)?;
        let mut w = Writer::new(&mut out[..room]);
        check_length(header.pn_len)?;
        let low_bits = header.pn_len as u8 - 1;
        write_long_header(
            &mut w,
            header.kind,
            header.version,
            &header.dcid,
            &header.scid,
            low_bits,
        )?;
        match header.kind {
            PacketType::Initial => w.varint_bytes(header.token)?,
            PacketType::Handshake | PacketType::ZeroRtt => {}
            _ => return Err(Error::Malformed("packet type to build")),
        }
        let length_offset = w.position();
        w.varint2(0)?;
        let pn_offset = w.position();
        w.bytes(&header.packet_number.to_be_bytes()[8 - header.pn_len..])?;
        frames(&mut w)?;
        let padded = pad(&mut w, pn_offset, pad_to)?;
        Writer::new(&mut out[length_offset..pn_offset]).varint2(padded + TAG_LEN - pn_offset)?;
        (pn_offset, padded)
    };
    let size = plain_end + TAG_LEN;
    keys.seal(
        &mut out[..size],
        pn_offset,
        header.pn_len,
        header.packet_number,
    )?;
    Ok(size)
}

/// Header fields in a 1-RTT packet to send (RFC 9000 17.3.1). The spin bit is 0.
#[derive(Clone, Copy, Debug)]
pub struct ShortHeader {
    pub dcid: ConnectionId,
    pub packet_number: u64,
    /// Length of the packet number on the wire, 1 to 4 bytes.
    pub pn_len: usize,
    /// Key Phase bit (RFC 9001 6).
    pub key_phase: bool,
}

/// Writes one 1-RTT packet to the front of `out` and seals it; returns the size. Other arguments and errors are as
/// for [`build_packet`].
pub fn build_short_packet(
    out: &mut [u8],
    header: &ShortHeader,
    keys: &impl Seal,
    pad_to: Option<usize>,
    frames: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
) -> Result<usize, Error> {
    let room = out.len().checked_sub(TAG_LEN).ok_or(Error::NoRoom)?;
    let mut w = Writer::new(&mut out[..room]);
    check_length(header.pn_len)?;
    w.u8(0x40 | u8::from(header.key_phase) << 2 | (header.pn_len as u8 - 1))?;
    w.bytes(header.dcid.as_slice())?;
    let pn_offset = w.position();
    w.bytes(&header.packet_number.to_be_bytes()[8 - header.pn_len..])?;
    frames(&mut w)?;
    let size = pad(&mut w, pn_offset, pad_to)? + TAG_LEN;
    keys.seal(
        &mut out[..size],
        pn_offset,
        header.pn_len,
        header.packet_number,
    )?;
    Ok(size)
}

fn check_length(pn_len: usize) -> Result<(), Error> {
    if (1..=4).contains(&pn_len) {
        Ok(())
    } else {
        Err(Error::Malformed("packet number length"))
    }
}

/// Adds PADDING up to a packet of `pad_to` bytes, or as needed for the header protection sample, which starts 4
/// bytes after the start of the packet number. Returns the end of the padding.
fn pad(w: &mut Writer<'_>, pn_offset: usize, pad_to: Option<usize>) -> Result<usize, Error> {
    let end = w.position();
    let padded = pad_to
        .map_or(end, |size| size.saturating_sub(TAG_LEN))
        .max(pn_offset + 4);
    w.zeros(padded.checked_sub(end).ok_or(Error::NoRoom)?)?;
    Ok(padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use crate::{Frame, Frames, InitialSecret, Keys, OpenError, parse_packet, tls, write_crypto};

    fn file(name: &str) -> Vec<u8> {
        let path = format!("{}/testdata/{name}.hex", env!("CARGO_MANIFEST_DIR"));
        hex(&std::fs::read_to_string(path).unwrap())
    }

    /// Opens the client and server Initial of RFC 9001 A.2, A.3 or RFC 9369 A.2, A.3, and builds them again.
    fn check(rfc: &str, version: Version) {
        let odcid = ConnectionId::from([0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
        let secret = InitialSecret::new(version, &odcid).unwrap();
        for (side, material, number, pn_len) in [
            ("client", secret.client(), 2, 4),
            ("server", secret.server(), 1, 2),
        ] {
            let keys = Keys::new(&material);
            let sealed = file(&format!("{rfc}_{side}_packet"));
            let plain = file(&format!("{rfc}_{side}_plain"));
            let packet = parse_packet(&sealed, 0, 0).unwrap();
            assert_eq!(
                (packet.kind, packet.version, packet.end),
                (PacketType::Initial, version, sealed.len())
            );
            let mut bytes = sealed.clone();
            let opened = keys.open(&mut bytes, &packet, None).unwrap();
            let header_len = packet.pn_offset + pn_len;
            assert_eq!((opened.packet_number, opened.pn_len), (number, pn_len));
            assert!(opened.reserved_bits_clear);
            assert_eq!(opened.payload, &plain[header_len..]);
            assert_eq!(bytes[..header_len], plain[..header_len]);

            let mut out = [0; 1500];
            let header = LongHeader {
                kind: PacketType::Initial,
                version,
                dcid: packet.dcid,
                scid: packet.scid,
                token: &[],
                packet_number: number,
                pn_len,
            };
            let n = build_packet(&mut out, &header, &keys, None, |w| {
                w.bytes(&plain[header_len..])
            })
            .unwrap();
            assert_eq!(out[..n], sealed);

            let mut forged = sealed.clone();
            *forged.last_mut().unwrap() ^= 1;
            assert_eq!(
                keys.open(&mut forged, &packet, None),
                Err(OpenError::Unauthentic)
            );
        }
    }

    #[test]
    fn samples_of_rfc_9001_a() {
        check("rfc9001_a", Version::V1);
    }

    #[test]
    fn samples_of_rfc_9369_a() {
        check("rfc9369_a", Version::V2);
    }

    #[test]
    fn hellos_of_rfc_9001_a_parse() {
        let plain = file("rfc9001_a_client_plain");
        let Some(Ok(Frame::Crypto { offset: 0, data })) = Frames::new(&plain[22..]).next() else {
            panic!()
        };
        let (_, body) = tls::read_message(&mut crate::Reader::new(data)).unwrap();
        let hello = tls::ClientHello::parse(body).unwrap();
        assert_eq!(hello.sni, Some(&b"example.com"[..]));
        let plain = file("rfc9001_a_server_plain");
        let frames: Vec<_> = Frames::new(&plain[20..]).map(|f| f.unwrap()).collect();
        assert!(matches!(frames[0], Frame::Ack(ack) if ack.largest == 0 && ack.first_range == 0));
        let Frame::Crypto { data, .. } = frames[1] else {
            panic!()
        };
        assert_eq!(tls::hello_kind(data), Ok(tls::HelloKind::ServerHello));
    }

    #[test]
    fn padding_reaches_the_size_asked_for_and_short_packets_can_be_sampled() {
        let cid = ConnectionId::from([4; 8]);
        let keys = Keys::new(&InitialSecret::new(Version::V1, &cid).unwrap().client());
        let mut out = [0; 1500];
        let header = LongHeader {
            token: b"a token",
            ..LongHeader::initial(Version::V1, cid, cid, 3)
        };
        let n = build_packet(&mut out, &header, &keys, Some(1252), |w| {
            write_crypto(w, 0, b"x")
        })
        .unwrap();
        assert_eq!(n, 1252);
        let packet = parse_packet(&out[..n], 0, 0).unwrap();
        assert_eq!(packet.token(&out), b"a token");
        assert_eq!(
            keys.open(&mut out[..n], &packet, Some(2))
                .unwrap()
                .packet_number,
            3
        );

        let n = build_packet(&mut out, &header, &keys, None, |w| w.u8(1)).unwrap();
        let packet = parse_packet(&out[..n], 0, 0).unwrap();
        assert_eq!(
            keys.open(&mut out[..n], &packet, None).unwrap().payload,
            [1, 0, 0]
        );
        let too_small = build_packet(&mut out, &header, &keys, Some(40), |w| w.zeros(100));
        assert_eq!(too_small, Err(Error::NoRoom));
    }

    #[test]
    fn packets_with_a_short_header_are_read_back() {
        let cid = ConnectionId::from([4; 8]);
        let keys = Keys::new(&InitialSecret::new(Version::V1, &cid).unwrap().client());
        for (packet_number, pn_len, pad_to, key_phase) in [
            (0, 1, None, false),
            (300, 2, Some(60), true),
            (1 << 20, 4, None, false),
        ] {
            let mut out = [0; 100];
            let header = ShortHeader {
                dcid: cid,
                packet_number,
                pn_len,
                key_phase,
            };
            let n = build_short_packet(&mut out, &header, &keys, pad_to, |w| w.u8(1)).unwrap();
            let packet = parse_packet(&out[..n], 0, 8).unwrap();
            assert_eq!((packet.kind, packet.dcid), (PacketType::OneRtt, cid));
            let largest = packet_number.checked_sub(1);
            let opened = keys.open(&mut out[..n], &packet, largest).unwrap();
            assert_eq!(
                (opened.packet_number, opened.pn_len),
                (packet_number, pn_len)
            );
            assert_eq!(opened.first_byte & 0x04 != 0, key_phase);
            assert_eq!((opened.payload[0], opened.reserved_bits_clear), (1, true));
            assert!(pad_to.is_none_or(|size| size == n));
            let none = build_short_packet(&mut out, &header, &keys, Some(20), |w| w.zeros(50));
            assert_eq!(none, Err(Error::NoRoom));
        }
    }
}
