//! RSASSA-PSS signatures (RFC 8017 8.1.2) by keys of any size. The TLS library supports only keys of 2048 to
//! 8192 bits.

use aws_lc_rs::digest::{Algorithm, digest};
use x509_parser::num_bigint::BigUint;

/// Largest key and largest exponent in bits. They bound a verification's work. Browsers accept exponents
/// of at most 33 bits.
const MOST_BITS: u64 = 16_384;
const MOST_EXPONENT_BITS: u64 = 64;

/// Returns whether `signature` is a signature of `message` with a salt as long as the hash (RFC 8446 4.2.3).
/// Returns `None` if the key is too large to try, or invalid.
pub fn verify(
    (modulus, exponent): (&[u8], &[u8]),
    hash: &'static Algorithm,
    message: &[u8],
    signature: &[u8],
) -> Option<bool> {
    let (n, e) = (
        BigUint::from_bytes_be(modulus),
        BigUint::from_bytes_be(exponent),
    );
    if n.bits() < 2 || n.bits() > MOST_BITS || e.bits() == 0 || e.bits() > MOST_EXPONENT_BITS {
        return None;
    }
    let s = BigUint::from_bytes_be(signature);
    if signature.len() as u64 != n.bits().div_ceil(8) || s >= n {
        return Some(false);
    }
    let encoded = s.modpow(&e, &n).to_bytes_be();
    Some(is_encoding_of(&encoded, n.bits() - 1, hash, message))
}

/// Returns whether an encoded message of `bits` bits is an encoding of `message` (RFC 8017 9.1.2). Its
/// leading zeros may be missing.
fn is_encoding_of(encoded: &[u8], bits: u64, hash: &'static Algorithm, message: &[u8]) -> bool {
    let (length, of_hash) = (bits.div_ceil(8) as usize, hash.output_len());
    let Some(lacking) = length.checked_sub(encoded.len()) else {
        return false;
    };
    let encoded = [&vec![0; lacking][..], encoded].concat();
    let Some((&0xbc, encoded)) = encoded.split_last() else {
        return false;
    };
    // At least one byte precedes the salt.
    let Some(masked) = encoded
        .len()
        .checked_sub(of_hash)
        .filter(|rest| *rest > of_hash)
    else {
        return false;
    };
    let (masked, h) = encoded.split_at(masked);
    let unused = 8 * length as u64 - bits;
    let keep = 0xff >> unused;
    if masked[0] & !keep != 0 {
        return false;
    }
    let mut data: Vec<u8> = masked
        .iter()
        .zip(mask(hash, h, masked.len()))
        .map(|(byte, mask)| byte ^ mask)
        .collect();
    data[0] &= keep;
    let (padding, salt) = data.split_at(data.len() - of_hash);
    let is_padding = padding
        .split_last()
        .is_some_and(|(last, zeros)| *last == 1 && zeros.iter().all(|byte| *byte == 0));
    let salted = [&[0; 8], digest(hash, message).as_ref(), salt].concat();
    is_padding && digest(hash, &salted).as_ref() == h
}

/// MGF1 (RFC 8017 B.2.1).
fn mask(hash: &'static Algorithm, seed: &[u8], length: usize) -> Vec<u8> {
    let blocks = length.div_ceil(hash.output_len()) as u32;
    let mut mask: Vec<u8> = (0..blocks)
        .flat_map(|n| {
            digest(hash, &[seed, &n.to_be_bytes()].concat())
                .as_ref()
                .to_vec()
        })
        .collect();
    mask.truncate(length);
    mask
}

#[cfg(test)]
pub mod tests;
