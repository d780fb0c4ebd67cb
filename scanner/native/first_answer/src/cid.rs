//! Client connection IDs: a keyed hash of the probe, so that an answer identifies its probe and a forged
//! one does not.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// Key of the hash; without it nobody can guess a connection ID in use.
#[derive(Clone, Copy)]
pub struct CidKey(SipHasher24);

impl CidKey {
    /// A key of 16 bytes.
    pub fn new(key: &[u8; 16]) -> Self {
        CidKey(SipHasher24::new_with_key(key))
    }

    /// Returns the connection ID of attempt number `attempt` (from 1) for the target on line `line` of the
    /// list: SipHash-2-4 over both.
    pub fn of(&self, line: u32, attempt: u8) -> [u8; 8] {
        let mut hasher = self.0;
        hasher.write_u64(u64::from(line) << 8 | u64::from(attempt));
        hasher.finish().to_be_bytes()
    }
}

/// Reads `--cid-key`: 32 hex digits.
pub fn parse_key(text: &str) -> Result<[u8; 16], String> {
    let wrong = || "a key is 32 hex digits (16 bytes)".to_owned();
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut key = [0; 16];
    for (byte, pair) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differs_by_probe_attempt_and_key() {
        let (a, b) = (CidKey::new(&[1; 16]), CidKey::new(&[2; 16]));
        assert_eq!(a.of(7, 1), a.of(7, 1));
        assert!(a.of(7, 1) != a.of(7, 2) && a.of(7, 1) != a.of(8, 1) && a.of(7, 1) != b.of(7, 1));
    }

    #[test]
    fn keys_are_hex() {
        assert_eq!(
            parse_key("000102030405060708090a0b0c0d0e0f"),
            Ok(std::array::from_fn(|i| i as u8))
        );
        assert!(
            parse_key("00").is_err()
                && parse_key(&"g0".repeat(16)).is_err()
                && parse_key(&"+1".repeat(16)).is_err()
        );
    }
}
