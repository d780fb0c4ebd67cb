//! Pseudorandom numbers for tests that damage input. Tests of several crates include this file.

/// A small generator with the same numbers in every run.
pub struct Numbers(pub u64);

impl Numbers {
    /// Returns a number below `below`; 0 if `below` is 0.
    pub fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below.max(1)
    }
}
