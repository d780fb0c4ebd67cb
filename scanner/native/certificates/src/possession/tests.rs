//! Right and wrong signatures by keys of every kind, in certificates that cannot be used.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PSS_SHA256, RsaKeyPair,
};

use super::*;
use crate::pss::tests::{EXPONENT, MESSAGE, OF_OPENSSL, bytes};

// Object identifiers, each a whole element.
const EC: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";
const P256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const P384: &[u8] = b"\x06\x05\x2b\x81\x04\x00\x22";
const P521: &[u8] = b"\x06\x05\x2b\x81\x04\x00\x23";
const SECP256K1: &[u8] = b"\x06\x05\x2b\x81\x04\x00\x0a";
const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const RSASSA_PSS: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";
const ED25519_ID: &[u8] = b"\x06\x03\x2b\x65\x70";
const NULL: &[u8] = b"\x05\x00";
const VERSION_3: &[u8] = b"\xa0\x03\x02\x01\x02";

/// A DER element of these parts.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let size = (content.len() as u16).to_be_bytes();
    [&[tag, 0x82], &size[..], &content].concat()
}

/// A public key (RFC 5280 4.1.2.7).
fn public_key(algorithm: &[&[u8]], bits: &[u8]) -> Vec<u8> {
    let algorithm = element(0x30, algorithm);
    element(0x30, &[&algorithm, &element(3, &[&[0], bits])])
}

/// A certificate without a valid signature. `behind`: elements after the key (unique identifiers,
/// extensions).
fn certificate(version: &[u8], key: &[u8], behind: &[u8]) -> Vec<u8> {
    let (algorithm, name) = (element(0x30, &[EC]), element(0x30, &[]));
    let time = element(0x17, &[b"300101000000Z"]);
    let validity = element(0x30, &[&time, &time]);
    let serial: &[u8] = &[2, 1, 1];
    let signed = element(
        0x30,
        &[
            version, serial, &algorithm, &name, &validity, &name, key, behind,
        ],
    );
    element(0x30, &[&signed, &algorithm, &element(3, &[&[0]])])
}

/// An unknown extension that is critical.
fn critical_extension() -> Vec<u8> {
    let id: &[u8] = b"\x06\x03\x2a\x03\x04";
    let extension = element(0x30, &[id, b"\x01\x01\xff", b"\x04\x02\x05\x00"]);
    element(0xa3, &[&element(0x30, &[&extension])])
}

/// A key on a curve: the public key's bits, and its signature of [`MESSAGE`].
fn on_curve(algorithm: &'static EcdsaSigningAlgorithm) -> (Vec<u8>, Vec<u8>) {
    let key = EcdsaKeyPair::generate(algorithm).unwrap();
    let signature = key.sign(&SystemRandom::new(), MESSAGE).unwrap();
    (
        key.public_key().as_ref().to_vec(),
        signature.as_ref().to_vec(),
    )
}

fn of_rsa() -> (Vec<u8>, Vec<u8>) {
    let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(
        &RSA_PSS_SHA256,
        &SystemRandom::new(),
        MESSAGE,
        &mut signature,
    )
    .unwrap();
    (key.public_key().as_ref().to_vec(), signature)
}

#[track_caller]
fn both(leaf: &[u8], scheme: u16, signature: &[u8]) {
    assert_eq!(has_signed(leaf, scheme, MESSAGE, signature), Some(true));
    assert_eq!(has_signed(leaf, scheme, b"other", signature), Some(false));
}

#[test]
fn a_certificate_that_cannot_be_used_still_has_a_key() {
    let (bits, signature) = on_curve(&ECDSA_P256_SHA256_ASN1_SIGNING);
    let key = public_key(&[EC, P256], &bits);
    let unique = [element(0x81, &[&[0, 7]]), element(0x82, &[&[0, 8]])].concat();
    let plain = certificate(VERSION_3, &key, &[]);
    let time = plain.windows(13).position(|at| at == b"300101000000Z");
    let mut impossible = plain.clone();
    impossible[time.unwrap() + 3] = b'9';
    for leaf in [
        certificate(&[], &key, &[]),
        certificate(VERSION_3, &key, &critical_extension()),
        certificate(VERSION_3, &key, &unique),
        certificate(VERSION_3, &key, b"\xa3\x03\x02\x01\x05"),
        [&plain[..], b"behind it"].concat(),
        impossible,
        plain,
    ] {
        both(&leaf, 0x0403, &signature);
    }
}

#[test]
fn keys_of_every_kind() {
    for (algorithm, curve, scheme) in [
        (&ECDSA_P256_SHA256_ASN1_SIGNING, P256, 0x0403),
        (&ECDSA_P384_SHA384_ASN1_SIGNING, P384, 0x0503),
        (&ECDSA_P521_SHA512_ASN1_SIGNING, P521, 0x0603),
    ] {
        let (bits, signature) = on_curve(algorithm);
        let key = public_key(&[EC, curve], &bits);
        both(&certificate(VERSION_3, &key, &[]), scheme, &signature);
    }
    let ed25519 = Ed25519KeyPair::generate().unwrap();
    let key = public_key(&[ED25519_ID], ed25519.public_key().as_ref());
    let signature = ed25519.sign(MESSAGE);
    both(
        &certificate(VERSION_3, &key, &[]),
        0x0807,
        signature.as_ref(),
    );
    let (bits, signature) = of_rsa();
    for algorithm in [&[RSA, NULL][..], &[RSA], &[RSASSA_PSS], &[RSASSA_PSS, NULL]] {
        let leaf = certificate(VERSION_3, &public_key(algorithm, &bits), &[]);
        for scheme in [0x0804, 0x0809] {
            both(&leaf, scheme, &signature);
        }
        let other = has_signed(&leaf, 0x0805, MESSAGE, &signature);
        assert_eq!(other, Some(false), "another hash");
    }
    for ((size, _, modulus, signature), scheme) in
        OF_OPENSSL.into_iter().zip([0x0804, 0x0805, 0x0806])
    {
        let modulus = bytes(modulus);
        // A number with the first bit set has a leading byte of zeros.
        let zero = if modulus[0] < 0x80 { &[][..] } else { &[0] };
        let modulus = element(2, &[zero, &modulus]);
        let numbers = element(0x30, &[&modulus, &element(2, &[EXPONENT])]);
        let key = public_key(&[RSA, NULL], &numbers);
        println!("{size} bits");
        both(
            &certificate(VERSION_3, &key, &[]),
            scheme,
            &bytes(signature),
        );
    }
}

#[test]
fn what_cannot_be_checked_is_not_known() {
    let (bits, signature) = on_curve(&ECDSA_P256_SHA256_ASN1_SIGNING);
    let of = |algorithm: &[&[u8]], bits: &[u8]| {
        certificate(VERSION_3, &public_key(algorithm, bits), &[])
    };
    let good = of(&[EC, P256], &bits);
    let rsa = of(&[RSA, NULL], b"no key");
    for (leaf, scheme, expected) in [
        // A curve that the library does not support, an unnamed curve, a point that is not on the curve.
        (&of(&[EC, SECP256K1], &bits), 0x0403, None),
        (&of(&[EC], &bits), 0x0403, None),
        (&of(&[EC, P256], &[4; 65]), 0x0403, None),
        (&rsa, 0x0804, None),
        // Ed448, ECDSA on a Brainpool curve, SM2, ML-DSA, GREASE.
        (&good, 0x0808, None),
        (&good, 0x081a, None),
        (&good, 0x0708, None),
        (&good, 0x0904, None),
        (&good, 0x0a0a, None),
        // TLS 1.3 forbids these schemes, or they need another key.
        (&good, 0x0203, Some(false)),
        (&rsa, 0x0401, Some(false)),
        (&good, 0x0503, Some(false)),
        (&good, 0x0804, Some(false)),
        (&rsa, 0x0403, Some(false)),
    ] {
        let found = has_signed(leaf, scheme, MESSAGE, &signature);
        assert_eq!(found, expected, "{scheme:#06x}");
    }
    for length in 0..good.len() {
        let cut = has_signed(&good[..length], 0x0403, MESSAGE, &signature);
        assert_eq!(cut, None, "{length}");
    }
}
