//! Packet numbers of one space and direction: the largest, and which of the last ones were seen (RFC 9000
//! 12.3).

/// Remembers 128 numbers up to the largest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Duplicates {
    /// Meaningless while nothing was seen.
    largest: u64,
    /// Bit i: `largest - i` was seen; in two halves, which need less room than one number.
    window: [u64; 2],
}

impl Duplicates {
    /// Largest number so far.
    pub(super) fn largest(&self) -> Option<u64> {
        (self.window != [0; 2]).then_some(self.largest)
    }

    /// Records `number` and returns whether it was recorded before. Numbers older than the window count as
    /// new.
    pub(super) fn is_repeat(&mut self, number: u64) -> bool {
        let [high, low] = self.window;
        let window = u128::from(high) << 64 | u128::from(low);
        let Some(largest) = self.largest() else {
            *self = Duplicates {
                largest: number,
                window: [0, 1],
            };
            return false;
        };
        if number > largest {
            let shift = u32::try_from(number - largest).unwrap_or(u32::MAX);
            self.keep(window.checked_shl(shift).unwrap_or(0) | 1);
            self.largest = number;
            return false;
        }
        let bit = u32::try_from(largest - number)
            .ok()
            .and_then(|age| 1u128.checked_shl(age))
            .unwrap_or(0);
        self.keep(window | bit);
        window & bit != 0
    }

    fn keep(&mut self, window: u128) {
        self.window = [(window >> 64) as u64, window as u64];
    }
}

#[cfg(test)]
mod tests {
    use super::Duplicates;

    #[test]
    fn numbers_in_any_order() {
        let mut d = Duplicates::default();
        for number in [5, 3, 9, 4, 1 << 40, (1 << 40) - 2] {
            assert!(!d.is_repeat(number));
        }
        assert!(d.is_repeat(1 << 40) && d.is_repeat((1 << 40) - 2));
        assert!(!d.is_repeat((1 << 40) - 1) && !d.is_repeat(3));
        assert_eq!(d.largest(), Some(1 << 40));
    }
}
