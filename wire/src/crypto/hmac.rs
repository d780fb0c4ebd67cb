//! HMAC (RFC 2104) for messages with a single block, built on the compression functions of SHA-256 and SHA-384.
//!
//! Every HMAC in QUIC's key schedule has a short message and a key of at most one digest. Each half of such an HMAC
//! hashes one key block and one padded block. The states after the key blocks (RFC 2104 4) and the padded messages
//! are stored, so that an HMAC needs two compressions.

/// Types for one hash function: its word, block, digest, compression function and initial state.
macro_rules! hmac_of_one_block {
    ($word:ty, $block:literal, $digest:literal, $length_field:literal, $compress:path, $initial:expr) => {
        use std::slice;

        /// Length of a digest in bytes.
        pub(crate) const DIGEST: usize = $digest;
        const BLOCK: usize = $block;
        const INITIAL: [$word; 8] = $initial;

        /// A hash's second block: a short message with the hash's padding, after one key block.
        #[derive(Clone, Copy)]
        pub(crate) struct LastBlock([u8; BLOCK]);

        impl LastBlock {
            /// Pads `message`, which must leave room for the padding (checked at compile time for constants).
            pub(crate) const fn new(message: &[u8]) -> LastBlock {
                assert!(
                    message.len() + 1 + $length_field <= BLOCK,
                    "message does not fit one block"
                );
                let mut block = [0; BLOCK];
                let mut i = 0;
                while i < message.len() {
                    block[i] = message[i];
                    i += 1;
                }
                block[i] = 0x80;
                let bits = ((BLOCK + message.len()) * 8) as u16;
                block[BLOCK - 2] = (bits >> 8) as u8;
                block[BLOCK - 1] = bits as u8;
                LastBlock(block)
            }
        }

        /// An empty padded digest: the message of an HMAC's outer half.
        const OUTER: LastBlock = LastBlock::new(&[0; DIGEST]);

        /// The states of an HMAC key after its two key blocks.
        #[derive(Clone, Copy)]
        pub(crate) struct HmacKey {
            inner: [$word; 8],
            outer: [$word; 8],
        }

        impl HmacKey {
            /// Prepares a key of at most one digest, padded with zeros.
            pub(crate) fn new(key: &[u8; DIGEST]) -> HmacKey {
                let state_after = |pad: u8| {
                    let mut block = [pad; BLOCK];
                    for (b, k) in block.iter_mut().zip(key) {
                        *b ^= k;
                    }
                    let mut state = INITIAL;
                    $compress(&mut state, slice::from_ref(&block));
                    state
                };
                HmacKey {
                    inner: state_after(0x36),
                    outer: state_after(0x5c),
                }
            }

            /// Returns the HMAC of the message in `block`.
            pub(crate) fn sign(&self, block: &LastBlock) -> [u8; DIGEST] {
                let [digest] = self.sign_all([block]);
                digest
            }

            /// Returns the HMAC of each message. Independent compressions are adjacent in the code, so that the
            /// processor overlaps them.
            pub(crate) fn sign_all<const N: usize>(
                &self,
                blocks: [&LastBlock; N],
            ) -> [[u8; DIGEST]; N] {
                let mut states = [self.inner; N];
                for (state, block) in states.iter_mut().zip(blocks) {
                    $compress(state, slice::from_ref(&block.0));
                }
                let inner = states.map(|state| {
                    let mut block = OUTER;
                    block.0[..DIGEST].copy_from_slice(&to_bytes(&state));
                    block
                });
                states = [self.outer; N];
                for (state, block) in states.iter_mut().zip(&inner) {
                    $compress(state, slice::from_ref(&block.0));
                }
                states.map(|state| to_bytes(&state))
            }
        }

        fn to_bytes(state: &[$word; 8]) -> [u8; DIGEST] {
            let mut out = [0; DIGEST];
            let chunks = out.as_chunks_mut::<{ size_of::<$word>() }>().0;
            for (chunk, word) in chunks.iter_mut().zip(state) {
                *chunk = word.to_be_bytes();
            }
            out
        }
    };
}

pub(crate) mod sha256 {
    hmac_of_one_block!(
        u32,
        64,
        32,
        8,
        sha2::block_api::compress256,
        [
            0x6a09_e667,
            0xbb67_ae85,
            0x3c6e_f372,
            0xa54f_f53a,
            0x510e_527f,
            0x9b05_688c,
            0x1f83_d9ab,
            0x5be0_cd19,
        ]
    );
}

pub(crate) mod sha384 {
    hmac_of_one_block!(
        u64,
        128,
        48,
        16,
        sha2::block_api::compress512,
        [
            0xcbbb_9d5d_c105_9ed8,
            0x629a_292a_367c_d507,
            0x9159_015a_3070_dd17,
            0x152f_ecd8_f70e_5939,
            0x6733_2667_ffc0_0b31,
            0x8eb4_4a87_6858_1511,
            0xdb0c_2e0d_64f9_8fa7,
            0x47b5_481d_befa_4fa4,
        ]
    );
}

#[cfg(test)]
mod tests {
    use super::{sha256, sha384};
    use crate::testing::hex;

    /// RFC 4231, test case 2.
    #[test]
    fn hmac_of_rfc_4231() {
        let message = b"what do ya want for nothing?";
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let tag = sha256::HmacKey::new(&key).sign(&sha256::LastBlock::new(message));
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(tag[..], hex(expected));

        let mut key = [0; 48];
        key[..4].copy_from_slice(b"Jefe");
        let block = sha384::LastBlock::new(message);
        let tag = sha384::HmacKey::new(&key).sign_all([&block, &block])[1];
        let expected = "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e\
                        8e2240ca5e69e2c78b3239ecfab21649";
        assert_eq!(tag[..], hex(expected));
    }
}
