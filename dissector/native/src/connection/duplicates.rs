//! Packet numbers of one space and direction: the largest, and which of the last ones were seen (RFC 9000 12.3).

/// Remembers 128 numbers up to the largest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Duplicates {
    largest: Option<u64>,
    /// Bit i: `largest - i` was seen.
    window: u128,
}

impl Duplicates {
    /// Largest number so far.
    pub(super) fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Takes note of `number` and says whether it had been seen. Numbers too old to tell are taken for new.
    pub(super) fn seen_before(&mut self, number: u64) -> bool {
        let Some(largest) = self.largest else {
            *self = Duplicates {
                largest: Some(number),
                window: 1,
            };
            return false;
        };
        if number > largest {
            let shift = u32::try_from(number - largest).unwrap_or(u32::MAX);
            self.window = self.window.checked_shl(shift).unwrap_or(0) | 1;
            self.largest = Some(number);
            return false;
        }
        let bit = u32::try_from(largest - number)
            .ok()
            .and_then(|age| 1u128.checked_shl(age))
            .unwrap_or(0);
        let seen = self.window & bit != 0;
        self.window |= bit;
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::Duplicates;

    #[test]
    fn numbers_in_any_order() {
        let mut d = Duplicates::default();
        for number in [5, 3, 9, 4, 1 << 40, (1 << 40) - 2] {
            assert!(!d.seen_before(number));
        }
        assert!(d.seen_before(1 << 40) && d.seen_before((1 << 40) - 2));
        assert!(!d.seen_before((1 << 40) - 1) && !d.seen_before(3));
        assert_eq!(d.largest(), Some(1 << 40));
    }
}
