//! The fuzz target: every function that reads certificates. Their results must be bounded.

use std::sync::LazyLock;

use firstflight_certificates::{
    Roots, Verifier, chain_sha256, describe, has_signed, name_matches, sha256,
};

/// Any time within the validity of the samples.
const AT: u64 = 1_900_000_000;

/// Names to match, of every form, and texts that are not names.
const NAMES: [&str; 7] = [
    "a.example",
    "x.b.example",
    "*.b.example",
    "192.0.2.1",
    "2001:db8::1",
    "",
    "a..example",
];

/// Uses the input as a certificate, as leaf and intermediate in a chain, and as a file of roots.
pub fn certificate(input: &[u8]) {
    static MOZILLA: LazyLock<Roots> = LazyLock::new(Roots::mozilla);
    let found = describe(input);
    assert_eq!(
        (found.sha256.len(), found.der_bytes as usize),
        (64, input.len())
    );
    assert!(found.subject.len() <= 4096 && found.issuer.len() <= 4096);
    assert!(found.sans.len() <= 65_536 && found.serial.len() <= 128);
    assert!(found.key_algorithm.len() <= 200 && found.signature_algorithm.len() <= 200);
    assert!(found.error.is_none_or(|error| error.len() < 1000));
    assert!(found.not_before.is_none_or(|ns| ns % 1_000_000_000 == 0));
    let sans: Result<Vec<String>, _> = serde_json::from_str(&found.sans);
    assert!(sans.is_ok_and(|sans| sans.len() <= 1000));
    for name in NAMES {
        let _ = name_matches(input, name);
    }
    for scheme in [0x0403, 0x0804, 0x0807, 0x0401, 0] {
        let signed = has_signed(input, scheme, b"message", b"signature");
        assert_ne!(signed, Some(true), "nobody signed it");
    }
    let (first, second) = input.split_at(input.len() / 2);
    for chain in [&[input][..], &[input, input], &[first, second, input], &[]] {
        let why = Verifier::new(MOZILLA.clone(), 4).verify(chain, AT).err();
        assert!(why.is_some_and(|why| why.len() < 200), "nobody signed it");
        assert_eq!(chain_sha256(chain).len(), 64);
    }
    if let Ok(roots) = Roots::of_pem(input) {
        assert!(roots.name().len() < 200);
        let _ = Verifier::new(roots, 1).verify(&[input], AT);
    }
    assert_eq!(sha256(input), found.sha256);
}
