//! Packet numbers received in one space, for duplicates and ACK frames.

use firstflight_wire::{Error, Writer, write_ack};

/// Maximum number of ranges. The lowest ones are dropped.
const MOST: usize = 16;

/// Ranges of packet numbers (largest, smallest), the highest first, with gaps between them.
#[derive(Clone, Debug, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Returns the largest number.
    pub fn largest(&self) -> Option<u64> {
        self.0.first().map(|(largest, _)| *largest)
    }

    /// Adds a number. Returns whether it is new. If there are [`MOST`] ranges, lower numbers are not new.
    pub fn insert(&mut self, number: u64) -> bool {
        let place = self.0.partition_point(|(_, low)| *low > number);
        if let Some((high, low)) = self.0.get(place).copied() {
            if number <= high {
                return false;
            }
            let joins_above = place > 0 && self.0[place - 1].1 == number + 1;
            if number == high + 1 {
                if joins_above {
                    self.0[place - 1].1 = low;
                    self.0.remove(place);
                } else {
                    self.0[place].0 = number;
                }
                return true;
            }
        } else if self.0.len() == MOST {
            return false;
        }
        if place > 0 && self.0[place - 1].1 == number + 1 {
            self.0[place - 1].1 = number;
        } else {
            self.0.insert(place, (number, number));
            self.0.truncate(MOST);
        }
        true
    }

    /// Writes an ACK of all ranges. `delay` is the encoded ACK Delay.
    pub fn write(&self, w: &mut Writer<'_>, delay: u64) -> Result<(), Error> {
        match self.largest() {
            Some(largest) => write_ack(w, largest, delay, &self.0),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_any_order_are_ranges_and_each_is_new_once() {
        for (numbers, expected) in [
            (vec![0, 1, 2], vec![(2, 0)]),
            (vec![2, 1, 0], vec![(2, 0)]),
            (vec![0, 2, 1], vec![(2, 0)]),
            (vec![5, 1, 3, 9], vec![(9, 9), (5, 5), (3, 3), (1, 1)]),
            (vec![5, 1, 3, 4, 2], vec![(5, 1)]),
            (vec![7, 9, 8, 3, 4], vec![(9, 7), (4, 3)]),
        ] {
            let mut ranges = Ranges::default();
            for number in &numbers {
                assert!(ranges.insert(*number), "{number} of {numbers:?}");
            }
            for number in &numbers {
                assert!(!ranges.insert(*number), "{number} of {numbers:?} again");
            }
            assert_eq!(ranges.0, expected);
            assert_eq!(ranges.largest(), numbers.iter().copied().max());
        }
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_is_not_new() {
        let mut ranges = Ranges::default();
        assert!((0..100).all(|i| ranges.insert(2 * i + 10)));
        assert_eq!((ranges.0.len(), ranges.largest()), (MOST, Some(208)));
        assert!(!ranges.insert(10) && !ranges.insert(3));
        assert!(ranges.insert(209));
    }

    #[test]
    fn the_ack_names_every_range() {
        let mut out = [0; 64];
        let mut w = Writer::new(&mut out);
        let mut ranges = Ranges::default();
        ranges.write(&mut w, 0).unwrap();
        assert_eq!(w.position(), 0, "nothing came");
        assert!([0, 1, 4, 9].into_iter().all(|number| ranges.insert(number)));
        ranges.write(&mut w, 3).unwrap();
        let mut frames = firstflight_wire::Frames::new(w.written());
        let Some(Ok(firstflight_wire::Frame::Ack(ack))) = frames.next() else {
            panic!()
        };
        let named: Vec<_> = ack.ranges().collect();
        assert_eq!((ack.delay, named), (3, vec![9..=9, 4..=4, 0..=1]));
    }
}
