//! Key, IV and header protection key of one direction, as bytes: what is kept of keys, a tenth of their
//! schedules.

use crate::tls::number;

/// Cipher suites that QUIC packets are protected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CipherSuite {
    Aes128GcmSha256,
    Aes256GcmSha384,
    ChaCha20Poly1305Sha256,
}

impl CipherSuite {
    /// By the number in a ServerHello; `None` for one that is not known here.
    pub fn from_number(suite: u16) -> Option<CipherSuite> {
        match suite {
            number::TLS_AES_128_GCM_SHA256 => Some(CipherSuite::Aes128GcmSha256),
            number::TLS_AES_256_GCM_SHA384 => Some(CipherSuite::Aes256GcmSha384),
            number::TLS_CHACHA20_POLY1305_SHA256 => Some(CipherSuite::ChaCha20Poly1305Sha256),
            _ => None,
        }
    }

    /// Name in the IANA registry of TLS cipher suites.
    pub fn name(self) -> &'static str {
        match self {
            CipherSuite::Aes128GcmSha256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::Aes256GcmSha384 => "TLS_AES_256_GCM_SHA384",
            CipherSuite::ChaCha20Poly1305Sha256 => "TLS_CHACHA20_POLY1305_SHA256",
        }
    }

    /// Bytes of its keys, of the AEAD and of header protection.
    fn key_len(self) -> usize {
        match self {
            CipherSuite::Aes128GcmSha256 => 16,
            _ => 32,
        }
    }

    /// Bytes of its traffic secrets.
    pub fn secret_len(self) -> usize {
        match self {
            CipherSuite::Aes256GcmSha384 => 48,
            _ => 32,
        }
    }
}

/// Key, IV and header protection key of one direction, as bytes. Of Initials: AES-128-GCM.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyMaterial {
    pub key: [u8; 16],
    pub iv: [u8; 12],
    pub hp: [u8; 16],
}

/// The same under any suite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SuiteMaterial {
    pub(super) suite: CipherSuite,
    /// As many bytes as the suite's AEAD takes, zeros behind them.
    pub(super) key: [u8; 32],
    pub(super) iv: [u8; 12],
    /// As many bytes as the suite's header protection takes, zeros behind them.
    pub(super) hp: [u8; 32],
}

impl SuiteMaterial {
    /// Key of the AEAD, as long as the suite's.
    pub fn key(&self) -> &[u8] {
        &self.key[..self.suite.key_len()]
    }

    /// IV of the AEAD.
    pub fn iv(&self) -> [u8; 12] {
        self.iv
    }

    /// Key of header protection.
    pub fn hp(&self) -> &[u8] {
        &self.hp[..self.suite.key_len()]
    }

    /// `key` and `hp` are what HKDF gave, of which the suite takes the first bytes.
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
