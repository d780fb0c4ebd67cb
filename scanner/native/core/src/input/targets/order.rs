//! The random order of targets. Neighbours in a list are often neighbours in a network.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Shuffles `items` (Fisher-Yates). The same seed gives the same order in every version of this program.
pub fn shuffle(items: &mut [u32], seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for last in (1..items.len()).rev() {
        // 64 bits scaled to the range: the bias is below 2^-32.
        let index = (u128::from(random.next_u64()) * (last as u128 + 1)) >> 64;
        items.swap(last, index as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_given_by_its_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..1000).collect();
            shuffle(&mut items, seed);
            items
        };
        let (a, b) = (shuffled(1), shuffled(2));
        assert!(a == shuffled(1) && a != b);
        let mut sorted = a.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..1000));
        let fixed = a
            .iter()
            .enumerate()
            .filter(|(i, item)| *i as u32 == **item)
            .count();
        assert!(fixed < 10, "{fixed} in place");
    }
}
