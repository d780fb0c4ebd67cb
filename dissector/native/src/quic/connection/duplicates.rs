//! Packet numbers in a space and direction: the largest number, and a window of recently seen numbers (RFC 9000 12.3).

/// Remembers 128 numbers up to the largest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Duplicates {
    /// Meaningless until a number was seen.
    largest: u64,
    /// Bit i: `largest - i` was seen. Two halves need less space than one 128-bit number.
    window: [u64; 2],
}

impl Duplicates {
    /// The largest number.
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

    #[test]
    fn the_last_128_numbers_are_remembered() {
        // Steps from one number to the next. They move the window within its halves and across them.
        for step in [1, 2, 3, 63, 64, 65, 127, 128, 129, 1 << 33] {
            let mut d = Duplicates::default();
            let mut known: Vec<u64> = Vec::new();
            for n in 0..200 {
                let number = n * step;
                assert!(!d.is_repeat(number), "{number}");
                known.push(number);
                assert_eq!(d.largest(), Some(number));
                for age in [0, 1, 62, 63, 64, 65, 126, 127] {
                    if let Some(old) = number.checked_sub(age)
                        && known.contains(&old)
                    {
                        assert!(d.is_repeat(old), "{old} after {number}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_before_the_largest_are_new_once() {
        let mut d = Duplicates::default();
        assert_eq!(d.largest(), None);
        assert!(!d.is_repeat(1000));
        for age in [1, 63, 64, 126, 127] {
            assert!(!d.is_repeat(1000 - age), "{age}");
            assert!(d.is_repeat(1000 - age), "{age}");
        }
        // Too old to be remembered.
        for age in [128, 129, 1000] {
            assert!(
                !d.is_repeat(1000 - age) && !d.is_repeat(1000 - age),
                "{age}"
            );
        }
        assert!(d.is_repeat(1000) && d.is_repeat(937) && d.is_repeat(936));
        assert!(!d.is_repeat(998));
        assert_eq!(d.largest(), Some(1000));
    }
}
