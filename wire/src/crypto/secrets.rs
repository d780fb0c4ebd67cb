//! Derives key, IV and header protection key from the client's destination connection ID (RFC 9001 5.1, 5.2; RFC
//! 9369 3.3).

use std::sync::LazyLock;

use super::KeyMaterial;
use super::hmac::sha256::{HmacKey, LastBlock};
use crate::version::Family;
use crate::{ConnectionId, Version};

/// Returns the input of HKDF-Expand-Label with an empty context (RFC 8446 7.1) and its length. It is the only block
/// of HKDF-Expand (RFC 5869 2.3).
pub(super) const fn label_info(label: &str, length: u8) -> ([u8; 32], usize) {
    let label = label.as_bytes();
    let mut info = [0; 32];
    info[1] = length;
    info[2] = 6 + label.len() as u8;
    let mut at = 3;
    let mut i = 0;
    while i < 6 {
        info[at] = b"tls13 "[i];
        at += 1;
        i += 1;
    }
    i = 0;
    while i < label.len() {
        info[at] = label[i];
        at += 1;
        i += 1;
    }
    // A context length of 0, then HKDF-Expand's counter.
    info[at + 1] = 1;
    (info, at + 2)
}

/// [`label_info`] for SHA-256.
pub(super) const fn expand_label(label: &str, length: u8) -> LastBlock {
    let (info, used) = label_info(label, length);
    LastBlock::new(info.split_at(used).0)
}

static CLIENT_IN: LastBlock = expand_label("client in", 32);
static SERVER_IN: LastBlock = expand_label("server in", 32);

/// Labels of the packet protection keys.
struct Labels {
    key: LastBlock,
    iv: LastBlock,
    hp: LastBlock,
}

static LABELS_V1: Labels = Labels {
    key: expand_label("quic key", 16),
    iv: expand_label("quic iv", 12),
    hp: expand_label("quic hp", 16),
};
static LABELS_V2: Labels = Labels {
    key: expand_label("quicv2 key", 16),
    iv: expand_label("quicv2 iv", 12),
    hp: expand_label("quicv2 hp", 16),
};

/// HMAC states of the salts, computed once.
struct Salts {
    v1: HmacKey,
    v2: HmacKey,
    draft29: HmacKey,
    draft23: HmacKey,
    draft22: HmacKey,
}

static SALTS: LazyLock<Salts> = LazyLock::new(|| {
    let state = |salt: [u8; 20]| {
        let mut key = [0; 32];
        key[..20].copy_from_slice(&salt);
        HmacKey::new(&key)
    };
    Salts {
        v1: state([
            0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8,
            0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
        ]),
        v2: state([
            0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
            0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
        ]),
        draft29: state([
            0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61,
            0x11, 0xe0, 0x43, 0x90, 0xa8, 0x99,
        ]),
        draft23: state([
            0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4,
            0x63, 0x65, 0xbe, 0xf9, 0xf5, 0x02,
        ]),
        draft22: state([
            0x7f, 0xbc, 0xdb, 0x0e, 0x7c, 0x66, 0xbb, 0xe9, 0x19, 0x3a, 0x96, 0xcd, 0x21, 0x51,
            0x9e, 0xbd, 0x7a, 0x02, 0x64, 0x4a,
        ]),
    }
});

/// The common secret of both directions of Initial protection. Each direction is derived on demand.
#[derive(Clone, Copy)]
pub struct InitialSecret {
    secret: HmacKey,
    v2: bool,
}

impl InitialSecret {
    /// `dcid` is the destination connection ID of the client's first Initial, or after a Retry the Retry's source
    /// connection ID. Returns `None` for an unknown version.
    pub fn new(version: Version, dcid: &ConnectionId) -> Option<InitialSecret> {
        let salt = match version.family()? {
            Family::V1 => &SALTS.v1,
            Family::V2 => &SALTS.v2,
            Family::Draft29 => &SALTS.draft29,
            Family::Draft25 | Family::Draft23 => &SALTS.draft23,
            Family::Draft22 => &SALTS.draft22,
        };
        // A connection ID has at most 20 bytes, so it fits in one block.
        let secret = HmacKey::new(&salt.sign(&LastBlock::new(dcid.as_slice())));
        Some(InitialSecret {
            secret,
            v2: version == Version::V2,
        })
    }

    /// Returns the keys of packets from the client.
    pub fn client(&self) -> KeyMaterial {
        self.direction(&CLIENT_IN)
    }

    /// Returns the keys of packets from the server.
    pub fn server(&self) -> KeyMaterial {
        self.direction(&SERVER_IN)
    }

    fn direction(&self, label: &LastBlock) -> KeyMaterial {
        let labels = if self.v2 { &LABELS_V2 } else { &LABELS_V1 };
        let secret = HmacKey::new(&self.secret.sign(label));
        let [key, iv, hp] = secret.sign_all([&labels.key, &labels.iv, &labels.hp]);
        KeyMaterial {
            key: first(&key),
            iv: first(&iv),
            hp: first(&hp),
        }
    }
}

/// Returns the first `N` bytes.
pub(super) fn first<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&digest[..N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    fn material(version: Version) -> (KeyMaterial, KeyMaterial) {
        let dcid = ConnectionId::from([0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
        let secret = InitialSecret::new(version, &dcid).unwrap();
        (secret.client(), secret.server())
    }

    #[test]
    fn keys_of_rfc_9001_a1() {
        let (client, server) = material(Version::V1);
        assert_eq!(client.key[..], hex("1f369613dd76d5467730efcbe3b1a22d"));
        assert_eq!(client.iv[..], hex("fa044b2f42a3fd3b46fb255c"));
        assert_eq!(client.hp[..], hex("9f50449e04a0e810283a1e9933adedd2"));
        assert_eq!(server.key[..], hex("cf3a5331653c364c88f0f379b6067e37"));
        assert_eq!(server.iv[..], hex("0ac1493ca1905853b0bba03e"));
        assert_eq!(server.hp[..], hex("c206b8d9b9f0f37644430b490eeaa314"));
    }

    #[test]
    fn keys_of_rfc_9369_a1() {
        let (client, server) = material(Version::V2);
        assert_eq!(client.key[..], hex("8b1a0bc121284290a29e0971b5cd045d"));
        assert_eq!(client.iv[..], hex("91f73e2351d8fa91660e909f"));
        assert_eq!(client.hp[..], hex("45b95e15235d6f45a6b19cbcb0294ba9"));
        assert_eq!(server.key[..], hex("82db637861d55e1d011f19ea71d5d2a7"));
        assert_eq!(server.iv[..], hex("dd13c276499c0249d3310652"));
        assert_eq!(server.hp[..], hex("edf6d05c83121201b436e16877593c3a"));
    }

    #[test]
    fn unknown_versions_have_no_keys() {
        assert!(InitialSecret::new(Version(0x0a0a_0a0a), &ConnectionId::EMPTY).is_none());
    }
}
