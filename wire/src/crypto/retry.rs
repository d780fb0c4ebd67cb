//! The Retry integrity tag (RFC 9001 5.8, RFC 9369 3.3.3).

use std::sync::LazyLock;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::TAG_LEN;
use crate::packet::write_long_header;
use crate::version::Family;
use crate::{ConnectionId, Error, Packet, PacketType, Version, Writer};

struct RetryKey {
    aead: LessSafeKey,
    nonce: [u8; 12],
}

fn retry_key(key: [u8; 16], nonce: [u8; 12]) -> RetryKey {
    let aead = UnboundKey::new(&AES_128_GCM, &key).expect("AES-128 takes any 16 bytes as a key");
    RetryKey {
        aead: LessSafeKey::new(aead),
        nonce,
    }
}

static V1: LazyLock<RetryKey> = LazyLock::new(|| {
    retry_key(
        [
            0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68,
            0xc8, 0x4e,
        ],
        [
            0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
        ],
    )
});
static V2: LazyLock<RetryKey> = LazyLock::new(|| {
    retry_key(
        [
            0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c,
            0xcc, 0x92,
        ],
        [
            0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a,
        ],
    )
});
static DRAFT_29: LazyLock<RetryKey> = LazyLock::new(|| {
    retry_key(
        [
            0xcc, 0xce, 0x18, 0x7e, 0xd0, 0x9a, 0x09, 0xd0, 0x57, 0x28, 0x15, 0x5a, 0x6c, 0xb9,
            0x6b, 0xe1,
        ],
        [
            0xe5, 0x49, 0x30, 0xf9, 0x7f, 0x21, 0x36, 0xf0, 0x53, 0x0a, 0x8c, 0x1c,
        ],
    )
});

static DRAFT_25: LazyLock<RetryKey> = LazyLock::new(|| {
    retry_key(
        [
            0x4d, 0x32, 0xec, 0xdb, 0x2a, 0x21, 0x33, 0xc8, 0x41, 0xe4, 0x04, 0x3d, 0xf2, 0x7d,
            0x44, 0x30,
        ],
        [
            0x4d, 0x16, 0x11, 0xd0, 0x55, 0x13, 0xa5, 0x52, 0xc5, 0x87, 0xd5, 0x75,
        ],
    )
});

/// Returns the tag of `retry` (without its tag) for a client that sent its first Initial to `odcid`; `None` for an
/// unknown version.
fn tag(version: Version, odcid: &ConnectionId, retry: &[u8]) -> Option<[u8; TAG_LEN]> {
    let key = match version.family()? {
        Family::V1 => &V1,
        Family::V2 => &V2,
        Family::Draft29 => &DRAFT_29,
        Family::Draft25 => &DRAFT_25,
        // These versions have no tag.
        Family::Draft23 | Family::Draft22 => return None,
    };
    let mut pseudo_packet = Vec::with_capacity(1 + odcid.len() + retry.len());
    pseudo_packet.push(odcid.len() as u8);
    pseudo_packet.extend_from_slice(odcid.as_slice());
    pseudo_packet.extend_from_slice(retry);
    let nonce = Nonce::assume_unique_for_key(key.nonce);
    let tag = key
        .aead
        .seal_in_place_separate_tag(nonce, Aad::from(&pseudo_packet), &mut [])
        .ok()?;
    tag.as_ref().try_into().ok()
}

/// Returns whether the Retry `packet` of `datagram` has the correct tag for a client that sent its first Initial to
/// `odcid`. Up to draft 24, a Retry has no tag; it must repeat this connection ID.
pub fn retry_is_intact(datagram: &[u8], packet: &Packet, odcid: &ConnectionId) -> bool {
    let Some(bytes) = datagram.get(packet.start..packet.end) else {
        return false;
    };
    if packet.version.family().is_some_and(Family::repeats_odcid) {
        let repeated = datagram.get(packet.pn_offset..packet.token.start);
        return repeated
            .and_then(|field| field.split_first())
            .is_some_and(|(_, id)| id == odcid.as_slice());
    }
    let Some((retry, sent)) = bytes.split_last_chunk::<TAG_LEN>() else {
        return false;
    };
    packet.kind == PacketType::Retry
        && tag(packet.version, odcid, retry).is_some_and(|right| right == *sent)
}

/// Writes a Retry packet (RFC 9000 17.2.5) and returns the size. `unused` fills the low four bits of the first
/// byte.
pub fn write_retry(
    out: &mut [u8],
    version: Version,
    odcid: &ConnectionId,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
    unused: u8,
) -> Result<usize, Error> {
    let mut w = Writer::new(out);
    write_long_header(&mut w, PacketType::Retry, version, dcid, scid, unused)?;
    w.bytes(token)?;
    let tag = tag(version, odcid, w.written()).ok_or(Error::Malformed("version"))?;
    w.bytes(&tag)?;
    Ok(w.position())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_packet;
    use crate::testing::hex;

    fn check(version: Version, sample: &str) {
        let bytes = hex(sample);
        let odcid = ConnectionId::from([0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
        let packet = parse_packet(&bytes, 0, 0).unwrap();
        assert_eq!((packet.kind, packet.version), (PacketType::Retry, version));
        assert_eq!(packet.token(&bytes), b"token");
        assert!(retry_is_intact(&bytes, &packet, &odcid));
        assert!(!retry_is_intact(
            &bytes,
            &packet,
            &ConnectionId::from([0; 8])
        ));
        let mut out = [0; 64];
        let n = write_retry(
            &mut out,
            version,
            &odcid,
            &packet.dcid,
            &packet.scid,
            b"token",
            0x0f,
        )
        .unwrap();
        assert_eq!(out[..n], bytes);
        out[n - 1] ^= 1;
        assert!(!retry_is_intact(&out[..n], &packet, &odcid));
    }

    #[test]
    fn sample_of_rfc_9001_a4() {
        check(
            Version::V1,
            "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba",
        );
    }

    #[test]
    fn sample_of_rfc_9369_a4() {
        check(
            Version::V2,
            "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6",
        );
    }
}
