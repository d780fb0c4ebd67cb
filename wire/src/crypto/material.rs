//! Key, IV and header protection key for one direction, as bytes. They take a tenth of the memory of their key
//! schedules.

use crate::tls::number;

/// Cipher suites of QUIC packet protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CipherSuite {
    Aes128GcmSha256,
    Aes256GcmSha384,
    ChaCha20Poly1305Sha256,
}

impl CipherSuite {
    /// Returns the suite with this number in a ServerHello; `None` for an unknown number.
    pub fn from_number(suite: u16) -> Option<CipherSuite> {
        match suite {
            number::TLS_AES_128_GCM_SHA256 => Some(CipherSuite::Aes128GcmSha256),
            number::TLS_AES_256_GCM_SHA384 => Some(CipherSuite::Aes256GcmSha384),
            number::TLS_CHACHA20_POLY1305_SHA256 => Some(CipherSuite::ChaCha20Poly1305Sha256),
            _ => None,
        }
    }

    /// Returns the name in the IANA registry of TLS cipher suites.
    pub fn name(self) -> &'static str {
        match self {
            CipherSuite::Aes128GcmSha256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::Aes256GcmSha384 => "TLS_AES_256_GCM_SHA384",
            CipherSuite::ChaCha20Poly1305Sha256 => "TLS_CHACHA20_POLY1305_SHA256",
        }
    }

    /// Returns the key length of the AEAD and of header protection in bytes.
    fn key_len(self) -> usize {
        match self {
            CipherSuite::Aes128GcmSha256 => 16,
            _ => 32,
        }
    }

    /// Returns the length of traffic secrets in bytes.
    pub fn secret_len(self) -> usize {
        match self {
            CipherSuite::Aes256GcmSha384 => 48,
            _ => 32,
        }
    }
}

/// Key, IV and header protection key for one direction for Initial packets (AES-128-GCM).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyMaterial {
    pub key: [u8; 16],
    pub iv: [u8; 12],
    pub hp: [u8; 16],
}

/// Key, IV and header protection key for one direction for any suite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SuiteMaterial {
    pub(super) suite: CipherSuite,
    /// The AEAD key, padded with zeros.
    pub(super) key: [u8; 32],
    pub(super) iv: [u8; 12],
    /// The header protection key, padded with zeros.
    pub(super) hp: [u8; 32],
}

impl SuiteMaterial {
    /// Returns the AEAD key, in the suite's length.
    pub fn key(&self) -> &[u8] {
        &self.key[..self.suite.key_len()]
    }

    /// Returns the AEAD's IV.
    pub fn iv(&self) -> [u8; 12] {
        self.iv
    }

    /// Returns the header protection key.
    pub fn hp(&self) -> &[u8] {
        &self.hp[..self.suite.key_len()]
    }

    /// `key` and `hp` are outputs of HKDF. The suite uses their first bytes.
    pub(super) fn new(suite: CipherSuite, key: &[u8], iv: [u8; 12], hp: &[u8]) -> SuiteMaterial {
        let length = suite.key_len();
        let padded = |bytes: &[u8]| {
            let mut out = [0; 32];
            out[..length].copy_from_slice(&bytes[..length]);
            out
        };
        SuiteMaterial {
            suite,
            key: padded(key),
            iv,
            hp: padded(hp),
        }
    }
}

impl From<KeyMaterial> for SuiteMaterial {
    fn from(initial: KeyMaterial) -> SuiteMaterial {
        let suite = CipherSuite::Aes128GcmSha256;
        SuiteMaterial::new(suite, &initial.key, initial.iv, &initial.hp)
    }
}
