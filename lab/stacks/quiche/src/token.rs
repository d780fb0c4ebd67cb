//! Address validation tokens of Retry packets (RFC 9000, 8.1.4): the server keeps no state for them.

use boring::hash::hmac_sha256;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const LIFETIME: Duration = Duration::from_secs(10);
const MAC_BYTES: usize = 32;
const TIME_BYTES: usize = 8;

/// Creates and checks tokens with a random key.
pub struct Tokens {
    key: [u8; 32],
    start: Instant,
}

impl Tokens {
    pub fn new(key: [u8; 32], start: Instant) -> Self {
        Self { key, start }
    }

    /// Returns a token for `peer`: the time, the original destination connection ID, and an HMAC over both, the
    /// address and the Retry's source connection ID. Returns `None` if HMAC fails.
    pub fn mint(
        &self,
        peer: SocketAddr,
        odcid: &[u8],
        retry_scid: &[u8],
        now: Instant,
    ) -> Option<Vec<u8>> {
        let age = now.saturating_duration_since(self.start).as_micros() as u64;
        let mut token = age.to_be_bytes().to_vec();
        token.extend_from_slice(odcid);
        let mac = self.mac(peer, &token, retry_scid)?;
        token.extend_from_slice(&mac);
        Some(token)
    }

    /// Returns the original destination connection ID if the token is authentic, fresh, and belongs to this client.
    pub fn check(
        &self,
        peer: SocketAddr,
        token: &[u8],
        retry_scid: &[u8],
        now: Instant,
    ) -> Option<Vec<u8>> {
        let (signed, mac) = token.split_at_checked(token.len().checked_sub(MAC_BYTES)?)?;
        let (time, odcid) = signed.split_at_checked(TIME_BYTES)?;
        if self.mac(peer, signed, retry_scid)? != *mac {
            return None;
        }
        let made = self.start + Duration::from_micros(u64::from_be_bytes(time.try_into().ok()?));
        (now.saturating_duration_since(made) <= LIFETIME).then(|| odcid.to_vec())
    }

    fn mac(&self, peer: SocketAddr, signed: &[u8], retry_scid: &[u8]) -> Option<[u8; MAC_BYTES]> {
        let mut input = peer.to_string().into_bytes();
        input.push(0);
        input.push(retry_scid.len() as u8);
        input.extend_from_slice(retry_scid);
        input.extend_from_slice(signed);
        hmac_sha256(&self.key, &input).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_serves_its_client_for_a_while() {
        let start = Instant::now();
        let tokens = Tokens::new([7; 32], start);
        let peer: SocketAddr = "192.0.2.1:1000".parse().unwrap();
        let token = tokens.mint(peer, b"original", b"retry", start).unwrap();
        let soon = start + Duration::from_secs(1);
        assert_eq!(
            tokens.check(peer, &token, b"retry", soon),
            Some(b"original".to_vec())
        );
        let other: SocketAddr = "192.0.2.1:1001".parse().unwrap();
        assert_eq!(tokens.check(other, &token, b"retry", soon), None);
        assert_eq!(tokens.check(peer, &token, b"retri", soon), None);
        assert_eq!(
            tokens.check(peer, &token, b"retry", start + 2 * LIFETIME),
            None
        );
        assert_eq!(tokens.check(peer, &token[1..], b"retry", soon), None);
        assert_eq!(tokens.check(peer, b"", b"retry", soon), None);
    }
}
