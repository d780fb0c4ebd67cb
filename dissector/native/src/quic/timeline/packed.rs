//! Times and durations that may be unknown, in eight bytes.

/// `Option<i64>` in half the space. [`i64::MIN`], 292 years before 1970, represents `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed(i64);

impl Default for Packed {
    fn default() -> Packed {
        Packed(i64::MIN)
    }
}

impl Packed {
    pub(super) fn get(self) -> Option<i64> {
        Some(self.0).filter(|_| self != Packed::default())
    }

    pub(super) fn set(&mut self, ns: i64) {
        self.0 = ns;
    }

    /// Sets it, unless it is known already.
    pub(super) fn first(&mut self, ns: i64) {
        if self.get().is_none() {
            self.set(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Packed;

    #[test]
    fn the_first_stays_until_another_is_set() {
        let mut packed = Packed::default();
        assert_eq!((packed.get(), size_of::<Packed>()), (None, 8));
        for (first, kept) in [(0, 0), (-5, 0), (7, 0)] {
            packed.first(first);
            assert_eq!(packed.get(), Some(kept), "{first}");
        }
        for ns in [-1, i64::MAX, i64::MIN + 1] {
            packed.set(ns);
            assert_eq!(packed.get(), Some(ns));
        }
    }
}
