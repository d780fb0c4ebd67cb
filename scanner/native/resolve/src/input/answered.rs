//! Lines of the list that the segments of an earlier run answer, and the names on these lines.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Lines per page.
const LINES: usize = 4096;

/// One bit per line: whether it is answered. One hash per line: its name in the segments; 0 without a name.
struct Page {
    answered: [u64; LINES / 64],
    names: [u64; LINES],
}

/// Lines that earlier segments answer. Memory is allocated only for pages with entries, so a damaged segment
/// with huge line numbers costs little.
#[derive(Default)]
pub struct Answered {
    pages: BTreeMap<u32, Box<Page>>,
    /// The last line with a name; 0 without any.
    last: u32,
}

impl Answered {
    /// Records whether a line is answered.
    pub fn set(&mut self, line: u32, answered: bool) {
        let (place, bit) = bit(line);
        let word = &mut self.page_of(line).answered[place];
        if answered {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    /// Records a line's name in the segments.
    pub fn note(&mut self, line: u32, domain: &str) {
        self.page_of(line).names[line as usize % LINES] = hash(domain);
        self.last = self.last.max(line);
    }

    /// Returns whether the segments give another name for this line.
    pub fn contradicts(&self, line: u32, domain: &str) -> bool {
        let page = self.pages.get(&number(line));
        let noted = page.map_or(0, |page| page.names[line as usize % LINES]);
        noted != 0 && noted != hash(domain)
    }

    pub fn contains(&self, line: u32) -> bool {
        let (place, bit) = bit(line);
        let page = self.pages.get(&number(line));
        page.is_some_and(|page| page.answered[place] & bit != 0)
    }

    /// Returns the last line with a name, or 0 without any.
    pub fn last(&self) -> u32 {
        self.last
    }

    pub fn count(&self) -> u64 {
        let words = self.pages.values().flat_map(|page| page.answered);
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    fn page_of(&mut self, line: u32) -> &mut Page {
        self.pages.entry(number(line)).or_insert_with(|| {
            Box::new(Page {
                answered: [0; LINES / 64],
                names: [0; LINES],
            })
        })
    }
}

/// Returns the number for a line's page.
fn number(line: u32) -> u32 {
    line / LINES as u32
}

/// Returns the index of a line's word in its page, and the line's bit in that word.
fn bit(line: u32) -> (usize, u64) {
    let place = line as usize % LINES;
    (place / 64, 1 << (place % 64))
}

/// Returns a hash of a name that is valid only in this process and never 0.
fn hash(domain: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    domain.hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines at the boundaries of words and pages, and the highest line number.
    const CORNERS: [u32; 8] = [0, 1, 63, 64, 4095, 4096, 70_000, u32::MAX];

    #[test]
    fn each_line_has_a_bit_of_its_own() {
        for line in CORNERS {
            let mut answered = Answered::default();
            answered.set(line, true);
            let found: Vec<u32> = CORNERS
                .into_iter()
                .filter(|l| answered.contains(*l))
                .collect();
            assert_eq!((found, answered.count()), (vec![line], 1));
            assert_eq!(answered.pages.len(), 1, "little memory for {line}");
            answered.set(line, false);
            assert_eq!((answered.contains(line), answered.count()), (false, 0));
        }
    }

    #[test]
    fn a_line_has_one_name() {
        let mut answered = Answered::default();
        assert_eq!(answered.last(), 0);
        for line in CORNERS {
            assert!(!answered.contradicts(line, "a"), "none is noted of {line}");
            answered.note(line, "a");
            assert_eq!(answered.last(), line);
            assert!(!answered.contradicts(line, "a") && answered.contradicts(line, "b"));
        }
        answered.note(1, "b");
        assert_eq!(answered.last(), u32::MAX);
        assert!(answered.contradicts(1, "a") && !answered.contains(1));
    }
}
