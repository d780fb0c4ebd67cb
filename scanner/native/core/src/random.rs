//! Random numbers, seeded by the system.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::Failure;

/// Returns a generator that the system seeded.
pub fn seeded_by_system() -> Result<ChaCha8Rng, Failure> {
    let mut seed = [0; 32];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Failure::Usage(format!("cannot get random numbers from the system: {e}")))?;
    Ok(ChaCha8Rng::from_seed(seed))
}

/// Returns `N` random bytes.
pub fn bytes<const N: usize>(random: &mut ChaCha8Rng) -> [u8; N] {
    let mut bytes = [0; N];
    random.fill_bytes(&mut bytes);
    bytes
}
