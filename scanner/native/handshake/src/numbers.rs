//! Numbers for tests of parsers.

/// A small generator: the same numbers in every run.
pub struct Numbers(pub u64);

impl Numbers {
    /// Returns a number below `below`.
    pub fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below.max(1)
    }

    /// Returns one of `pieces`.
    pub fn of<'a>(&mut self, pieces: &[&'a str]) -> &'a str {
        pieces[self.next(pieces.len())]
    }
}
