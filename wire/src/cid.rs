//! Connection IDs of up to 20 bytes, stored inline (RFC 9000 17.2).

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::Error;

/// Longest connection ID in the supported versions.
pub const MAX_CID_LEN: usize = 20;

/// A connection ID; `Display` writes it in hex.
#[derive(Clone, Copy, Default, Eq, PartialOrd, Ord)]
pub struct ConnectionId {
    len: u8,
    bytes: [u8; MAX_CID_LEN],
}

impl ConnectionId {
    /// The empty connection ID.
    pub const EMPTY: ConnectionId = ConnectionId {
        len: 0,
        bytes: [0; MAX_CID_LEN],
    };

    /// Copies `bytes`. More than 20 bytes are malformed.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        let mut cid = ConnectionId::EMPTY;
        let place = cid
            .bytes
            .get_mut(..bytes.len())
            .ok_or(Error::Malformed("connection ID length"))?;
        place.copy_from_slice(bytes);
        cid.len = bytes.len() as u8;
        Ok(cid)
    }

    /// Returns whether `bytes` start with this connection ID.
    pub fn begins(&self, bytes: &[u8]) -> bool {
        let Some(chunk) = bytes.first_chunk::<MAX_CID_LEN>() else {
            return bytes.starts_with(self.as_slice());
        };
        // Comparing a few whole words is faster than comparing a slice of variable length.
        let (ours, theirs) = (words(&self.bytes), words(chunk));
        let bits = 8 * u32::from(self.len);
        let low = u128::MAX.checked_shl(bits).unwrap_or(0);
        let high = u32::MAX.checked_shl(bits.saturating_sub(128)).unwrap_or(0);
        (ours.0 ^ theirs.0) & !low == 0 && (ours.1 ^ theirs.1) & !high == 0
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns whether the connection ID is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Returns the twenty bytes as two little-endian numbers.
fn words(bytes: &[u8; MAX_CID_LEN]) -> (u128, u32) {
    let [low @ .., a, b, c, d] = *bytes;
    (u128::from_le_bytes(low), u32::from_le_bytes([a, b, c, d]))
}

impl PartialEq for ConnectionId {
    /// Compares numbers, because the compiler compares twenty bytes with a function call. The unused bytes of equal
    /// connection IDs are equal.
    #[inline]
    fn eq(&self, other: &ConnectionId) -> bool {
        let (ours, theirs) = (words(&self.bytes), words(&other.bytes));
        (ours.0 ^ theirs.0) as u64
            | ((ours.0 ^ theirs.0) >> 64) as u64
            | u64::from(ours.1 ^ theirs.1)
            == 0
            && self.len == other.len
    }
}

impl Hash for ConnectionId {
    /// Hashes three numbers, which is faster than hashing bytes. The unused bytes of equal connection IDs are
    /// equal.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (words, rest) = self.bytes.as_chunks::<8>();
        for word in words {
            state.write_u64(u64::from_le_bytes(*word));
        }
        let last = rest
            .iter()
            .fold(0, |last, byte| last << 8 | u64::from(*byte));
        state.write_u64(last << 8 | u64::from(self.len));
    }
}

impl From<[u8; 8]> for ConnectionId {
    fn from(eight: [u8; 8]) -> Self {
        let mut bytes = [0; MAX_CID_LEN];
        bytes[..8].copy_from_slice(&eight);
        ConnectionId { len: 8, bytes }
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 2 * MAX_CID_LEN];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.as_slice()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0x0f)];
        }
        let text = &text[..2 * self.len()];
        f.write_str(std::str::from_utf8(text).unwrap_or_default())
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_any_length() {
        let whole: Vec<u8> = (1..=24).collect();
        for len in 0..=MAX_CID_LEN {
            let cid = ConnectionId::new(&whole[..len]).unwrap();
            for end in 0..=whole.len() {
                assert_eq!(cid.begins(&whole[..end]), len <= end, "{len} {end}");
            }
            for other in 0..MAX_CID_LEN {
                let mut changed = whole.clone();
                changed[other] ^= 0x80;
                assert_eq!(cid.begins(&changed), other >= len, "{len} {other}");
            }
        }
    }
}
