//! HMAC-SHA256 for messages of one block, by the compression function alone.
//!
//! Every HMAC in the schedule of Initial keys has a key and a message of at most 55 bytes, so that each half of an HMAC is
//! one padded block after the key's block. Keeping the state after the key's block (RFC 2104 4) and the padded messages
//! leaves two compressions per HMAC.

use sha2::block_api::compress256;

const H0: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// A second block of a hash: up to 55 bytes of message with SHA-256's padding, after one block of key.
#[derive(Clone, Copy)]
pub(crate) struct LastBlock([u8; 64]);

impl LastBlock {
    /// Pads `message`, which must not exceed 55 bytes (checked at compile time for constants).
    pub(crate) const fn new(message: &[u8]) -> LastBlock {
        assert!(message.len() <= 55, "message does not fit one block");
        let mut block = [0; 64];
        let mut i = 0;
        while i < message.len() {
            block[i] = message[i];
            i += 1;
        }
        block[i] = 0x80;
        let bits = ((64 + message.len()) * 8) as u16;
        block[62] = (bits >> 8) as u8;
        block[63] = bits as u8;
        LastBlock(block)
    }
}

/// An HMAC key after its two key blocks.
#[derive(Clone, Copy)]
pub(crate) struct HmacKey {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl HmacKey {
    /// Takes a key of at most 32 bytes, given with zeros behind it.
    pub(crate) fn new(key: &[u8; 32]) -> HmacKey {
        let state_after = |pad: u8| {
            let mut block = [pad; 64];
            for (b, k) in block.iter_mut().zip(key) {
                *b ^= k;
            }
            let mut state = H0;
            compress256(&mut state, &[block]);
            state
        };
        HmacKey {
            inner: state_after(0x36),
            outer: state_after(0x5c),
        }
    }

    /// HMAC of the message that `block` holds.
    pub(crate) fn sign(&self, block: &LastBlock) -> [u8; 32] {
        let mut state = self.inner;
        compress256(&mut state, &[block.0]);
        let mut digest_block = LastBlock::new(&[0; 32]);
        digest_block.0[..32].copy_from_slice(&to_bytes(&state));
        state = self.outer;
        compress256(&mut state, &[digest_block.0]);
        to_bytes(&state)
    }
}

fn to_bytes(state: &[u32; 8]) -> [u8; 32] {
    let mut out = [0; 32];
    for (chunk, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *chunk = word.to_be_bytes();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_of_rfc_4231_case_2() {
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let tag = HmacKey::new(&key).sign(&LastBlock::new(b"what do ya want for nothing?"));
        assert_eq!(
            tag,
            [
                0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95,
                0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9,
                0x64, 0xec, 0x38, 0x43
            ]
        );
    }
}
