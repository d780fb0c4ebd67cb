//! Signatures that OpenSSL made by keys of other sizes, and signatures of the library.

use aws_lc_rs::digest::{SHA256, SHA384, SHA512};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaKeyPair,
};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::RSAPublicKey;

use super::*;

pub const MESSAGE: &[u8] = b"first flight";
pub const EXPONENT: &[u8] = &[1, 0, 1];

/// Bits of the key, hash, modulus and signature of [`MESSAGE`] in hex: `openssl genpkey -algorithm RSA -pkeyopt
/// rsa_keygen_bits:BITS`, `openssl dgst -HASH -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:LENGTH -sign`.
pub const OF_OPENSSL: [(u16, &Algorithm, &str, &str); 3] = [
    (
        1024,
        &SHA256,
        concat!(
            "befefb00bd14ac40794e652ed2fbf393fc457a27f89501512e6f0a553b47f53672e199628ed5036ab9f43b880e47abcd",
            "c5bd5c9350820b53b50885eb491dc3400d65bd59b6f8d3b19aa7055d1933b06b2492080e8431906e2a23f156f95ac5a4",
            "c736b9207b1deb3b8ca343ccca6202eb0352fe46d7f173a7902345a187a802c3",
        ),
        concat!(
            "8d5b786f675d09118d4dd919604e92e8ead75fc74c6f1328067759a6eacb4edcf334dc76daa97b694c5f32138ed8ffc5",
            "649d1877bc9b1d3090db50cd490772f20ad005a98fd8ae103812221d66e5402159a01f2ba13a60d7f07460503aea1252",
            "7f6387ad4e8f10fd75dd377d67bcbe34a1d92fa8a783906f404d4099598a42fe",
        ),
    ),
    (
        1025,
        &SHA384,
        concat!(
            "01633a29bfa3d6f2ab9eaa4acd3fd469a4a77ee24f484720001fa93951faf4e616b79045d6c0b8f5cb1a7ca6557f8231",
            "fae80e5985f85ea463dc481e4a37f723186b923c46907de484f7b5e40e80408d819a1d2ac4add7fe5cf413ba34b126de",
            "833f6f4a50ee16a2c4a9caab908dc40e436dab3223aeed793af5f9f71c70f9e46f",
        ),
        concat!(
            "015fa21279472bd34d76b56678a68743379d1d40cc0b25883053265da1e6317b9a5fe2dce5d67ba5422b29b5c9206f57",
            "4627d082c33b51feffd7b5b1a8037ef408876c4cba8b7308ad9d3c9b679c1d386019239338fdd05236e169ec9a184092",
            "3e53040349221b7c4a09e88876a5229b63c2a1aa2689c9f6e564a2e355e22294c6",
        ),
    ),
    (
        1536,
        &SHA512,
        concat!(
            "ed273afd2d66c7ebfe6a8488712b3a86aabc9ace38e47d77dd39eae9923dc2e6666cd8d2756cfb6707ace0252481f500",
            "069d8bcde74068d92181f77b83c4d97f2937625d2b04ca99e12e8e1eda23a001e36c1ba1d6178572445682240bb75f3d",
            "5686cd42fb42677d67369d8b533b5e44e0cfb0ad516081411b72075029e7a2a7341e5170e402aed34289879e708ba520",
            "6127d427fd2cc4b29c7e3edf01d0e162c80c0318cb62e0a5351b010c10d70adb0ce44c1add6fc1839200c7a64556c9fd",
        ),
        concat!(
            "1d88770bf0883fa7b3a475fdc67633125b9762b1c8942e731d9c7fef1d627a7cea067f60ea19a761a35435821ee7bebe",
            "28897bbaa3fc14e0759b66f93fb2d598af0e123fdb6d7d599afeddce8ff36076e6b43b8b17aa676eb7f84f54aec18e8d",
            "a6eb5368e550c00193508756985404eefca1f2508acddf5a0279694e8c304c87c09b84d30cec5feb0d7db55009d907fa",
            "6aa8205fd3ced42f258e6efd54421e4cbf0d92cdbca54ea8cbd7d3e1161ee0546c7d557237cba15a52a279edad8d22ec",
        ),
    ),
];

pub fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn keys_of_other_sizes() {
    for (bits, hash, modulus, signature) in OF_OPENSSL {
        let (modulus, signature) = (bytes(modulus), bytes(signature));
        let check =
            |message, signature: &[u8]| verify((&modulus, EXPONENT), hash, message, signature);
        assert_eq!(check(MESSAGE, &signature), Some(true), "{bits}");
        assert_eq!(check(b"second flight", &signature), Some(false), "{bits}");
        for place in [0, signature.len() / 2, signature.len() - 1] {
            let mut damaged = signature.clone();
            damaged[place] ^= 1;
            assert_eq!(check(MESSAGE, &damaged), Some(false), "{bits} {place}");
        }
        for wrong in [
            &[][..],
            &signature[1..],
            &[&[0], &signature[..]].concat(),
            &vec![0; signature.len()],
            &vec![0xff; signature.len()],
        ] {
            assert_eq!(check(MESSAGE, wrong), Some(false), "{bits}");
        }
    }
}

#[test]
fn it_says_what_the_library_says() {
    let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let public = key.public_key().as_ref();
    let (_, public) = RSAPublicKey::from_der(public).unwrap();
    let numbers = (public.modulus, public.exponent);
    for (signs, hash) in [
        (&RSA_PSS_SHA256, &SHA256),
        (&RSA_PSS_SHA384, &SHA384),
        (&RSA_PSS_SHA512, &SHA512),
    ] {
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(signs, &SystemRandom::new(), MESSAGE, &mut signature)
            .unwrap();
        for (other, right) in [
            (&SHA256, hash == &SHA256),
            (&SHA384, hash == &SHA384),
            (&SHA512, hash == &SHA512),
        ] {
            let found = verify(numbers, other, MESSAGE, &signature);
            assert_eq!(found, Some(right), "{hash:?} {other:?}");
        }
    }
}

#[test]
fn keys_that_are_none_or_too_large_are_not_tried() {
    let large = vec![0xff; 2049];
    for (modulus, exponent) in [
        (&[][..], EXPONENT),
        (&[1], EXPONENT),
        (&[0, 0], EXPONENT),
        (&large, EXPONENT),
        (&large[..128], &[]),
        (&large[..128], &large[..9]),
    ] {
        assert_eq!(verify((modulus, exponent), &SHA256, MESSAGE, b"x"), None);
    }
    // Too small for any signature.
    let small = verify((&[0xff; 32], EXPONENT), &SHA256, MESSAGE, &[0x11; 32]);
    assert_eq!(small, Some(false));
}
