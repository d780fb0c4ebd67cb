//! Hashes that identify certificates and chains.

use sha2::{Digest, Sha256};

use crate::oid::hex;

/// SHA-256 of bytes, 64 hex digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 over a chain's concatenated certificates, leaf first, 64 hex digits.
pub fn chain_sha256(chain: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for der in chain {
        hash.update(der);
    }
    hex(&hash.finalize())
}

/// SHA-256 over a chain that also depends on the boundaries between the certificates.
pub fn chain_key(chain: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for der in chain {
        hash.update((der.len() as u64).to_be_bytes());
        hash.update(der);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_fips_180() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
        assert_eq!(chain_sha256(&[b"a", b"", b"bc"]), abc);
        assert_eq!(chain_sha256(&[]), sha256(b""));
    }

    #[test]
    fn keys_depend_on_the_ends() {
        assert_ne!(chain_key(&[b"a", b"bc"]), chain_key(&[b"ab", b"c"]));
        assert_ne!(chain_key(&[b"a"]), chain_key(&[b"a", b""]));
        assert_eq!(chain_key(&[b"a", b"bc"]), chain_key(&[b"a", b"bc"]));
    }
}
