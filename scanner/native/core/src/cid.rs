//! Client connection IDs. Each is a keyed hash of a probe: an answer identifies its probe, and a forged answer
//! does not. The module also finds connection IDs in packets (RFC 8999 5).

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// Key of the hash. Without it, nobody can guess a connection ID in use.
#[derive(Clone, Copy)]
pub struct CidKey(SipHasher24);

impl CidKey {
    /// Creates a key from 16 bytes.
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

/// Returns the destination connection ID in a received packet, if it can be one of ours.
pub fn destination_cid(bytes: &[u8]) -> Option<[u8; 8]> {
    if bytes.first()? & 0x80 == 0 {
        return bytes.get(1..)?.first_chunk().copied();
    }
    if *bytes.get(5)? == 8 {
        bytes.get(6..)?.first_chunk().copied()
    } else {
        None
    }
}

/// Returns the source connection ID of a packet of ours with a long header.
pub fn source_cid(bytes: &[u8]) -> Option<[u8; 8]> {
    let after = bytes.get(6 + usize::from(*bytes.get(5)?)..)?;
    if bytes[0] & 0x80 != 0 && *after.first()? == 8 {
        after.get(1..)?.first_chunk().copied()
    } else {
        None
    }
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

    #[test]
    fn connection_ids_are_found_in_headers() {
        let mut long = vec![0xc0, 0, 0, 0, 1, 8];
        long.extend([1; 8]);
        long.push(8);
        long.extend([2; 8]);
        assert_eq!(
            (destination_cid(&long), source_cid(&long)),
            (Some([1; 8]), Some([2; 8]))
        );
        assert_eq!(
            (destination_cid(&long[..13]), source_cid(&long[..22])),
            (None, None)
        );
        assert_eq!(
            destination_cid(&[0x40, 3, 3, 3, 3, 3, 3, 3, 3, 9]),
            Some([3; 8])
        );
        assert_eq!((destination_cid(&[]), source_cid(&[])), (None, None));
        long[5] = 9;
        assert_eq!(destination_cid(&long), None);
    }

    #[test]
    fn a_quote_names_our_connection_id_only_in_a_long_header_of_ours() {
        let mut ours = vec![0xc0, 0, 0, 0, 1, 3, 9, 9, 9, 8];
        ours.extend([2; 8]);
        assert_eq!(source_cid(&ours), Some([2; 8]));
        for (name, place, byte) in [
            ("a short header", 0, 0x40),
            ("a connection ID of another length", 9, 9),
            ("a destination that is longer than the quote", 5, 200),
        ] {
            let mut quote = ours.clone();
            quote[place] = byte;
            assert_eq!(source_cid(&quote), None, "{name}");
        }
    }
}
