//! Lines of the list that earlier segments answer, and the names that they had there.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Lines of a page.
const LINES: usize = 4096;

/// A bit for each line that is answered; and of each line a hash of the name that it had, 0: none.
struct Page {
    answered: [u64; LINES / 64],
    names: [u64; LINES],
}

/// Lines that earlier segments answer. Only pages that have some take memory, whatever a damaged segment numbers.
#[derive(Default)]
pub struct Answered {
    pages: BTreeMap<u32, Box<Page>>,
    /// The last line that had a name; 0: none.
    last: u32,
}

impl Answered {
    /// Notes whether a line is answered.
    pub fn set(&mut self, line: u32, answered: bool) {
        let (place, bit) = bit(line);
        let word = &mut self.page_of(line).answered[place];
        if answered {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    /// Notes the name that a line had.
    pub fn note(&mut self, line: u32, domain: &str) {
        self.page_of(line).names[line as usize % LINES] = hash(domain);
        self.last = self.last.max(line);
    }

    /// Returns whether a line had another name.
    pub fn contradicts(&self, line: u32, domain: &str) -> bool {
        let page = self.pages.get(&number(line));
        let noted = page.map_or(0, |page| page.names[line as usize % LINES]);
        noted != 0 && noted != hash(domain)
    }

    /// Returns whether a line is answered.
    pub fn contains(&self, line: u32) -> bool {
        let (place, bit) = bit(line);
        let page = self.pages.get(&number(line));
        page.is_some_and(|page| page.answered[place] & bit != 0)
    }

    /// Returns the last line that had a name; 0: none had.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Returns how many lines are answered.
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

/// The page of a line.
fn number(line: u32) -> u32 {
    line / LINES as u32
}

/// A line's word in its page, and its bit there.
fn bit(line: u32) -> (usize, u64) {
    let place = line as usize % LINES;
    (place / 64, 1 << (place % 64))
}

/// A hash of a name, for this run alone; never 0.
fn hash(domain: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    domain.hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Around the ends of words and pages, and the last line that can be numbered.
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
