//! Names of keys and signatures: a short name for a known algorithm, otherwise its object identifier.

use x509_parser::public_key::PublicKey;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

use crate::oid::dotted;

const RSA: &str = "1.2.840.113549.1.1.1";
const EC: &str = "1.2.840.10045.2.1";

/// Object identifier, name and bits of a key (RFC 5480, 8410, 9881). `None`: the bits depend on the key, or
/// are not usually given.
const KEYS: [(&str, &str, Option<u16>); 12] = [
    (RSA, "rsa", None),
    ("1.2.840.113549.1.1.10", "rsa_pss", None),
    ("1.2.840.10040.4.1", "dsa", None),
    ("1.3.101.112", "ed25519", Some(256)),
    ("1.3.101.113", "ed448", Some(456)),
    // Curves of EC keys.
    ("1.2.840.10045.3.1.7", "ec_p256", Some(256)),
    ("1.3.132.0.34", "ec_p384", Some(384)),
    ("1.3.132.0.35", "ec_p521", Some(521)),
    ("1.3.132.0.10", "ec_secp256k1", Some(256)),
    ("2.16.840.1.101.3.4.3.17", "ml_dsa_44", None),
    ("2.16.840.1.101.3.4.3.18", "ml_dsa_65", None),
    ("2.16.840.1.101.3.4.3.19", "ml_dsa_87", None),
];

/// Object identifier and name for a signature algorithm (RFC 4055, 5758, 8410, 9881).
const SIGNATURES: [(&str, &str); 14] = [
    ("1.2.840.113549.1.1.4", "rsa_md5"),
    ("1.2.840.113549.1.1.5", "rsa_sha1"),
    ("1.2.840.113549.1.1.11", "rsa_sha256"),
    ("1.2.840.113549.1.1.12", "rsa_sha384"),
    ("1.2.840.113549.1.1.13", "rsa_sha512"),
    ("1.2.840.113549.1.1.10", "rsa_pss"),
    ("1.2.840.10045.4.1", "ecdsa_sha1"),
    ("1.2.840.10045.4.3.2", "ecdsa_sha256"),
    ("1.2.840.10045.4.3.3", "ecdsa_sha384"),
    ("1.2.840.10045.4.3.4", "ecdsa_sha512"),
    ("1.3.101.112", "ed25519"),
    ("2.16.840.1.101.3.4.3.17", "ml_dsa_44"),
    ("2.16.840.1.101.3.4.3.18", "ml_dsa_65"),
    ("2.16.840.1.101.3.4.3.19", "ml_dsa_87"),
];

/// Returns the algorithm and the bits of a public key. The bits are the size of an RSA modulus or of a
/// curve's order; `None` if they are unknown or above 65,535. An EC key on an unknown curve has the object
/// identifier of the curve.
pub fn key(info: &SubjectPublicKeyInfo<'_>) -> (String, Option<u16>) {
    let mut id = dotted(info.algorithm.algorithm.as_bytes());
    if id == EC {
        let parameters = info.algorithm.parameters.as_ref();
        let curve = parameters.and_then(|any| any.as_oid().ok());
        if let Some(curve) = curve {
            id = dotted(curve.as_bytes());
        }
    }
    match KEYS.iter().find(|(known, _, _)| *known == id) {
        Some((RSA, name, _)) => ((*name).to_owned(), rsa_bits(info)),
        Some((_, name, bits)) => ((*name).to_owned(), *bits),
        None => (id, None),
    }
}

fn rsa_bits(info: &SubjectPublicKeyInfo<'_>) -> Option<u16> {
    let Ok(PublicKey::RSA(key)) = info.parsed() else {
        return None;
    };
    let zeros = key.modulus.iter().take_while(|byte| **byte == 0).count();
    let modulus = &key.modulus[zeros..];
    let bits = 8 * modulus.len() - modulus.first()?.leading_zeros() as usize;
    u16::try_from(bits).ok()
}

/// Returns the algorithm that signed a certificate.
pub fn signature(algorithm: &AlgorithmIdentifier<'_>) -> String {
    let id = dotted(algorithm.algorithm.as_bytes());
    let known = SIGNATURES.iter().find(|(known, _)| *known == id);
    known.map_or(id, |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{
        KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512,
        PKCS_ED25519, PKCS_RSA_SHA256, PKCS_RSA_SHA384, PKCS_RSA_SHA512, RsaKeySize,
    };

    use crate::describe;
    use crate::testing::self_signed;

    #[test]
    fn keys_and_signatures_of_every_type() {
        let rsa = |algorithm, size| KeyPair::generate_rsa_for(algorithm, size).unwrap();
        let other = |algorithm| KeyPair::generate_for(algorithm).unwrap();
        for (key, name, bits, signature) in [
            (
                rsa(&PKCS_RSA_SHA256, RsaKeySize::_2048),
                "rsa",
                2048,
                "rsa_sha256",
            ),
            (
                rsa(&PKCS_RSA_SHA384, RsaKeySize::_3072),
                "rsa",
                3072,
                "rsa_sha384",
            ),
            (
                rsa(&PKCS_RSA_SHA512, RsaKeySize::_2048),
                "rsa",
                2048,
                "rsa_sha512",
            ),
            (
                other(&PKCS_ECDSA_P256_SHA256),
                "ec_p256",
                256,
                "ecdsa_sha256",
            ),
            (
                other(&PKCS_ECDSA_P384_SHA384),
                "ec_p384",
                384,
                "ecdsa_sha384",
            ),
            (
                other(&PKCS_ECDSA_P521_SHA512),
                "ec_p521",
                521,
                "ecdsa_sha512",
            ),
            (other(&PKCS_ED25519), "ed25519", 256, "ed25519"),
        ] {
            let found = describe(&self_signed("a.example", &key));
            assert_eq!(found.key_algorithm, name);
            assert_eq!(found.key_bits, Some(bits));
            assert_eq!(found.signature_algorithm, signature);
            assert_eq!(found.error, None);
        }
    }

    #[test]
    fn algorithms_that_are_not_known_are_object_identifiers() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let der = self_signed("a.example", &key);
        let changed = |from: &[u8], to: &[u8]| {
            let mut der = der.clone();
            for at in 0..der.len() - from.len() {
                if der[at..].starts_with(from) {
                    der[at..at + to.len()].copy_from_slice(to);
                }
            }
            describe(&der)
        };
        // Changes the last number in the identifiers of the curve P-256 and of ECDSA with SHA-256.
        let curve = [0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
        let found = changed(&curve, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 6]);
        assert_eq!(found.key_algorithm, "1.2.840.10045.3.1.6");
        assert_eq!(found.key_bits, None);
        let ecdsa = [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
        let found = changed(&ecdsa, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 9]);
        assert_eq!(found.signature_algorithm, "1.2.840.10045.4.3.9");
    }
}
