//! A column's texts, in Parquet's layout: a dictionary with the distinct texts and an index for each cell, or, if
//! few texts repeat, all texts in order.

use std::hash::BuildHasher;

use firstflight_records::{Shown, Style};
use foldhash::fast::RandomState;

/// Length field before each text (Parquet's PLAIN).
const LENGTH: usize = 4;
/// Minimum number of cells that shows whether texts repeat.
const SAMPLE: usize = 64;

/// A column's texts in a row group.
pub(super) struct Texts {
    /// The dictionary or all texts, each with the length in front.
    plain: Vec<u8>,
    cells: usize,
    /// `None`: `plain` has all texts, in order.
    dictionary: Option<Dictionary>,
}

/// The distinct texts, and the index of each cell's text.
struct Dictionary {
    /// Offset of each distinct text, after the length.
    starts: Vec<u32>,
    /// Index of each cell's text. A row group has at most 65,536 cells.
    indices: Vec<u16>,
    /// An open-addressing hash table; its size is a power of two. A slot is 0, or the index plus one in the lower half
    /// and half of the text's hash in the upper half.
    slots: Vec<u32>,
    /// Seeded per process, so that senders of packets cannot choose texts that collide.
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

    /// Adds a text and returns the length in bytes.
    pub(super) fn push(&mut self, text: &str) -> usize {
        let start = self.begin();
        self.plain.extend_from_slice(text.as_bytes());
        self.end(start)
    }

    /// Adds a text that is formatted in place. Returns the length in bytes.
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

    /// Completes the text at `start`.
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

    /// The number of distinct texts, and the index of each cell's text; `None` without a dictionary.
    pub(super) fn indices(&self) -> Option<(usize, &[u16])> {
        let dictionary = self.dictionary.as_ref()?;
        Some((dictionary.starts.len(), &dictionary.indices))
    }

    /// Starts the next row group. Drops the dictionary if most texts in the last group were distinct.
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

/// Whether two texts are equal. Avoids the call of a general comparison, because most texts are short.
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

    /// Adds the text at `start`, the last one in `plain`. Returns whether the dictionary already has it.
    fn push(&mut self, plain: &[u8], start: usize) -> bool {
        let text = &plain[start..];
        // The most frequent case is the text of the previous row.
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

    /// The text with this index.
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
