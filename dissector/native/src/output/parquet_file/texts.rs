//! Texts of one column, laid out as Parquet stores them while they come: each distinct text once, as a dictionary, and
//! for each cell which one it is; or all texts one after the other, where few repeat themselves.

use std::hash::BuildHasher;

use firstflight_records::{Shown, Style};
use foldhash::fast::RandomState;

/// Bytes of the length in front of each text (Parquet's PLAIN).
const LENGTH: usize = 4;
/// Cells from which on it is known whether texts repeat themselves.
const SAMPLE: usize = 64;

/// The texts of a column in one row group.
pub(super) struct Texts {
    /// Each text behind its length: the dictionary, or all texts.
    plain: Vec<u8>,
    cells: usize,
    /// `None`: all texts are in `plain`, in order.
    dictionary: Option<Dictionary>,
}

/// Which texts there are, and which one each cell holds.
struct Dictionary {
    /// Where each distinct text begins, behind its length.
    starts: Vec<u32>,
    /// Of each cell. A row group has at most 65,536 cells.
    indices: Vec<u16>,
    /// Open addressing, a power of two: 0, or an index plus one below the upper half of its text's hash.
    slots: Vec<u32>,
    /// Seeded for each process: whoever sends packets must not choose what collides.
    hasher: RandomState,
}

impl Texts {
    pub(super) fn new() -> Texts {
        Texts {
            plain: Vec::new(),
            cells: 0,
            dictionary: Some(Dictionary::new()),
        }
    }

    /// Takes a text; returns its bytes.
    pub(super) fn push(&mut self, text: &str) -> usize {
        let start = self.begin();
        self.plain.extend_from_slice(text.as_bytes());
        self.end(start)
    }

    /// Takes a text that is written where it is kept; returns its bytes.
    #[inline(always)]
    pub(super) fn push_shown<S: Shown + ?Sized>(&mut self, shown: &S) -> usize {
        let start = self.begin();
        shown.write(Style::Plain, &mut self.plain);
        self.end(start)
    }

    #[inline(always)]
    fn begin(&mut self) -> usize {
        self.plain.extend_from_slice(&[0; LENGTH]);
        self.plain.len()
    }

    /// Ends the text that begins at `start`.
    fn end(&mut self, start: usize) -> usize {
        let length = self.plain.len() - start;
        self.plain[start - LENGTH..start].copy_from_slice(&(length as u32).to_le_bytes());
        self.cells += 1;
        if let Some(dictionary) = &mut self.dictionary
            && dictionary.push(&self.plain, start)
        {
            self.plain.truncate(start - LENGTH);
        }
        length
    }

    /// The dictionary or all texts, as PLAIN.
    pub(super) fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Distinct texts, and which of them each cell holds; `None` if there is no dictionary.
    pub(super) fn indices(&self) -> Option<(usize, &[u16])> {
        let dictionary = self.dictionary.as_ref()?;
        Some((dictionary.starts.len(), &dictionary.indices))
    }

    /// Begins the next row group: without a dictionary if most texts of this one came only once.
    pub(super) fn clear(&mut self) {
        if let Some(dictionary) = &mut self.dictionary {
            let is_sample = self.cells >= SAMPLE;
            if is_sample && 2 * dictionary.starts.len() > self.cells {
                self.dictionary = None;
            } else {
                dictionary.clear();
            }
        }
        self.plain.clear();
        self.cells = 0;
    }
}

/// Whether two texts are equal, without the call that a comparison of any length takes: most are short.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let ((words_a, rest_a), (words_b, rest_b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let differ = |(a, b): (&[u8; 8], &[u8; 8])| u64::from_ne_bytes(*a) != u64::from_ne_bytes(*b);
    a.len() == b.len()
        && !words_a.iter().zip(words_b).any(differ)
        && rest_a.iter().zip(rest_b).all(|(a, b)| a == b)
}

impl Dictionary {
    fn new() -> Dictionary {
        Dictionary {
            starts: Vec::new(),
            indices: Vec::new(),
            slots: vec![0; 64],
            hasher: RandomState::default(),
        }
    }

    fn clear(&mut self) {
        self.starts.clear();
        self.indices.clear();
        self.slots.fill(0);
    }

    /// Takes the text at the end of `plain`, from `start` on; returns whether it was there before.
    fn push(&mut self, plain: &[u8], start: usize) -> bool {
        let text = &plain[start..];
        // Most often the text of the row before.
        if let Some(last) = self.indices.last().copied()
            && is_same(self.text(plain, last), text)
        {
            self.indices.push(last);
            return true;
        }
        let tag = self.tag(text);
        let mut at = self.first_slot(tag);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let index = (slot & 0xffff) - 1;
            if slot >> 16 == tag >> 16 && is_same(self.text(plain, index as u16), text) {
                self.indices.push(index as u16);
                return true;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        let index = self.starts.len();
        self.starts.push(start as u32);
        self.indices.push(index as u16);
        self.slots[at] = (tag & 0xffff_0000) | (index as u32 + 1);
        if 2 * self.starts.len() > self.slots.len() {
            self.grow(plain);
        }
        false
    }

    /// The text with that index.
    fn text<'a>(&self, plain: &'a [u8], index: u16) -> &'a [u8] {
        let start = self.starts[usize::from(index)] as usize;
        let length = plain[start - LENGTH..start]
            .first_chunk::<LENGTH>()
            .map_or(0, |bytes| u32::from_le_bytes(*bytes));
        &plain[start..start + length as usize]
    }

    fn tag(&self, text: &[u8]) -> u32 {
        self.hasher.hash_one(text) as u32
    }

    fn first_slot(&self, tag: u32) -> usize {
        tag as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self, plain: &[u8]) {
        self.slots = vec![0; 4 * self.slots.len()];
        for index in 0..self.starts.len() {
            let tag = self.tag(self.text(plain, index as u16));
            let mut at = self.first_slot(tag);
            while self.slots[at] != 0 {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = (tag & 0xffff_0000) | (index as u32 + 1);
        }
    }
}
