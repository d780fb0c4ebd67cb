//! Tracks which bytes in a stream were seen, so that payload is counted once.

/// Maximum number of holes that are remembered; bytes that fill a forgotten hole count as seen before.
const MAX_HOLES: usize = 256;

/// The sequence numbers seen in one direction.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The number after the highest seen; `None` until the first byte if the start of the stream is unknown.
    next: Option<u32>,
    /// Gaps below `next`: the first missing number and the number after the last.
    holes: Vec<(u32, u32)>,
}

impl Coverage {
    /// Creates the coverage for a stream with first number `first`. Later bytes may arrive before earlier ones.
    pub fn starting_at(first: u32) -> Coverage {
        Coverage {
            next: Some(first),
            holes: Vec::new(),
        }
    }

    /// Adds `length` bytes from `seq` and returns how many of them are new.
    pub fn add(&mut self, seq: u32, length: u32) -> u32 {
        let end = seq.wrapping_add(length);
        if length == 0 {
            return 0;
        }
        let Some(next) = self.next else {
            self.next = Some(end);
            return length;
        };
        let mut new = 0;
        if before(next, end) {
            self.next = Some(end);
            if before(next, seq) {
                if self.holes.len() == MAX_HOLES {
                    self.holes.remove(0);
                }
                self.holes.push((next, seq));
                return length;
            }
            new = end.wrapping_sub(next);
        }
        if before(seq, next) && !self.holes.is_empty() {
            new += self.fill(seq, end);
        }
        new
    }

    /// Whether bytes below the highest one are missing.
    pub fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    /// The number after the last byte without a gap before it; `None` if the start is unknown.
    pub fn contiguous(&self) -> Option<u32> {
        self.holes.first().map(|&(from, _)| from).or(self.next)
    }

    /// Removes `seq..end` from the holes and returns the number of bytes removed.
    fn fill(&mut self, seq: u32, end: u32) -> u32 {
        let mut filled = 0;
        let mut left = Vec::with_capacity(self.holes.len());
        for &(from, to) in &self.holes {
            let (start, stop) = (later(from, seq), earlier(to, end));
            if !before(start, stop) {
                left.push((from, to));
                continue;
            }
            filled += stop.wrapping_sub(start);
            left.extend([(from, start), (stop, to)].iter().filter(|(a, b)| a != b));
        }
        left.truncate(MAX_HOLES);
        self.holes = left;
        filled
    }
}

/// Whether `a` precedes `b` in sequence space (RFC 9293 3.4).
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Returns the number that is later in the sequence.
pub fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

fn earlier(a: u32, b: u32) -> u32 {
    if before(a, b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_once_in_any_order_and_across_the_wrap() {
        let start = u32::MAX - 25;
        let mut c = Coverage::default();
        for (offset, length, new) in [
            (0, 10, 10),
            (0, 10, 0),
            (5, 10, 5),
            (40, 10, 10),
            (20, 5, 5),
            (10, 50, 30),
            (0, 60, 0),
            (60, 0, 0),
        ] {
            assert_eq!(c.add(start.wrapping_add(offset), length), new, "{offset}");
        }
        assert!(c.holes.is_empty());
    }

    #[test]
    fn the_first_gap_ends_the_contiguous_part() {
        let mut c = Coverage::starting_at(100);
        assert_eq!((c.contiguous(), c.has_holes()), (Some(100), false));
        for (seq, length, contiguous, has_holes) in [
            (100, 10, 110, false),
            (120, 10, 110, true),
            (140, 10, 110, true),
            (110, 10, 130, true),
            (130, 10, 150, false),
        ] {
            c.add(seq, length);
            let found = (c.contiguous(), c.has_holes());
            assert_eq!(found, (Some(contiguous), has_holes), "{seq}");
        }
        assert_eq!(Coverage::default().contiguous(), None);
    }
}
