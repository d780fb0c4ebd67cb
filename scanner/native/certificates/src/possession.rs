//! Verifies that a server has the private key for its certificate, by the signature of CertificateVerify (RFC
//! 8446 4.4.3). The verification uses only the key. Whether the certificate can be used is another question.

use aws_lc_rs::digest::{Algorithm, SHA256, SHA384, SHA512};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P521_SHA512_ASN1, ED25519,
    ParsedPublicKey, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, VerificationAlgorithm,
};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::RSAPublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::parts::Parts;
use crate::{algorithms, pss};

/// Returns whether `signature` is a signature of `message` by the key of the certificate `leaf` (DER), with a
/// `scheme` of RFC 8446 4.2.3. Returns `Some(false)` also if TLS 1.3 forbids the scheme here, or if the
/// scheme needs another kind of key. Returns `None` if no check is possible: the certificate, its key or the
/// scheme is not understood.
pub fn has_signed(leaf: &[u8], scheme: u16, message: &[u8], signature: &[u8]) -> Option<bool> {
    let scheme = Scheme::of(scheme)?;
    let parts = Parts::of(leaf)?;
    let (_, key) = SubjectPublicKeyInfo::from_der(parts.public_key).ok()?;
    let bytes = &key.subject_public_key.data;
    match (scheme, Kind::of(&algorithms::key(&key).0)?) {
        (Scheme::Pss(parameters, hash), Kind::Rsa) => {
            by_rsa(parameters, hash, bytes, message, signature)
        }
        (Scheme::Of(kind, algorithm), of_key) if kind == of_key => {
            by(algorithm, bytes, message, signature)
        }
        _ => Some(false),
    }
}

/// Kinds of keys that can verify signatures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
}

impl Kind {
    /// Returns the kind of key for an algorithm (`key_algorithm` in a certificate).
    fn of(algorithm: &str) -> Option<Kind> {
        match algorithm {
            // Both object identifiers of an RSA key (RFC 8446 4.2.3). This code does not
            // check restrictions on the key's use.
            "rsa" | "rsa_pss" => Some(Kind::Rsa),
            "ec_p256" => Some(Kind::P256),
            "ec_p384" => Some(Kind::P384),
            "ec_p521" => Some(Kind::P521),
            "ed25519" => Some(Kind::Ed25519),
            _ => None,
        }
    }
}

/// A signature scheme of RFC 8446 4.2.3.
#[derive(Clone, Copy)]
enum Scheme {
    Pss(&'static RsaParameters, &'static Algorithm),
    Of(Kind, &'static dyn VerificationAlgorithm),
    /// Not for CertificateVerify.
    Forbidden,
}

impl Scheme {
    fn of(code: u16) -> Option<Scheme> {
        Some(match code {
            0x0403 => Scheme::Of(Kind::P256, &ECDSA_P256_SHA256_ASN1),
            0x0503 => Scheme::Of(Kind::P384, &ECDSA_P384_SHA384_ASN1),
            0x0603 => Scheme::Of(Kind::P521, &ECDSA_P521_SHA512_ASN1),
            0x0807 => Scheme::Of(Kind::Ed25519, &ED25519),
            // rsa_pss_rsae_..., rsa_pss_pss_...
            0x0804 | 0x0809 => Scheme::Pss(&RSA_PSS_2048_8192_SHA256, &SHA256),
            0x0805 | 0x080a => Scheme::Pss(&RSA_PSS_2048_8192_SHA384, &SHA384),
            0x0806 | 0x080b => Scheme::Pss(&RSA_PSS_2048_8192_SHA512, &SHA512),
            // rsa_pkcs1_sha1, -sha256, -sha384, -sha512, ecdsa_sha1.
            0x0201 | 0x0401 | 0x0501 | 0x0601 | 0x0203 => Scheme::Forbidden,
            _ => return None,
        })
    }
}

fn by_rsa(
    parameters: &'static RsaParameters,
    hash: &'static Algorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Option<bool> {
    let bits = RsaParameters::public_modulus_len(key).unwrap_or(0);
    if (parameters.min_modulus_len()..=parameters.max_modulus_len()).contains(&bits) {
        return by(parameters, key, message, signature);
    }
    let (_, key) = RSAPublicKey::from_der(key).ok()?;
    pss::verify((key.modulus, key.exponent), hash, message, signature)
}

/// Verifies a signature. Returns `None` if the library does not accept the key.
fn by(
    algorithm: &'static dyn VerificationAlgorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Option<bool> {
    let key = ParsedPublicKey::new(algorithm, key).ok()?;
    Some(key.verify_sig(message, signature).is_ok())
}

#[cfg(test)]
mod tests;
