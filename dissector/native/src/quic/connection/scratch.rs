//! The copy of a datagram in which its packets are opened.

use std::hash::BuildHasher;

use firstflight_wire::KeyCache;
use foldhash::fast::FixedState;

use crate::padding::Padding;

/// Datagrams among which one that a capture holds twice is found again, about.
const RECENT: usize = 1 << 12;

/// Where packets are opened: one for all connections.
#[derive(Default)]
pub(super) struct Scratch {
    copy: Vec<u8>,
    keys: KeyCache,
    /// Initials of the newest datagram that opened; `None`: nobody wants to know.
    paddings: Option<Vec<Padding>>,
    /// Hashes of datagrams, each at the place that it names.
    recent: Vec<u64>,
    /// Place of the newest one.
    newest: usize,
}

impl Scratch {
    /// Keeps a list of the Initials that open in a datagram.
    pub(super) fn note_paddings(&mut self) {
        self.paddings = Some(Vec::new());
    }

    /// Whether the datagram `bytes` came before, among the last ones.
    fn is_repeat(&mut self, bytes: &[u8]) -> bool {
        self.recent.resize(RECENT, 0);
        let hash = FixedState::default().hash_one(bytes);
        self.newest = hash as usize % RECENT;
        std::mem::replace(&mut self.recent[self.newest], hash) == hash
    }

    /// The newest datagram will be taken once more, for another connection.
    pub(super) fn forget_newest(&mut self) {
        if let Some(hash) = self.recent.get_mut(self.newest) {
            *hash = 0;
        }
    }

    /// Begins another datagram.
    pub(super) fn begin(&mut self) {
        if let Some(paddings) = &mut self.paddings {
            paddings.clear();
        }
    }

    /// Initials of the newest datagram that opened, with their padding, and the keys made last.
    pub(super) fn paddings(&mut self) -> (&[Padding], &mut KeyCache) {
        let paddings = self.paddings.as_deref().unwrap_or_default();
        (paddings, &mut self.keys)
    }
}

/// A datagram, and a copy of it where packets are opened in place, made when the first one is.
pub(super) struct Bytes<'a> {
    pub(super) sealed: &'a [u8],
    scratch: &'a mut Scratch,
    is_copied: bool,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(sealed: &'a [u8], scratch: &'a mut Scratch) -> Bytes<'a> {
        scratch.begin();
        Bytes {
            sealed,
            scratch,
            is_copied: false,
        }
    }

    /// Whether the same datagram came before: a mirror port may show each twice.
    pub(super) fn is_repeat(&mut self) -> bool {
        !self.sealed.is_empty() && self.scratch.is_repeat(self.sealed)
    }

    /// The copy, and the keys made last.
    pub(super) fn copy_and_keys(&mut self) -> (&mut [u8], &mut KeyCache) {
        let (copy, keys, _) = self.parts();
        (copy, keys)
    }

    /// The same, and the list of Initials that opened, if it is kept.
    pub(super) fn parts(&mut self) -> (&mut [u8], &mut KeyCache, Option<&mut Vec<Padding>>) {
        let Scratch {
            copy,
            keys,
            paddings,
            ..
        } = &mut *self.scratch;
        if !self.is_copied {
            copy.clear();
            copy.extend_from_slice(self.sealed);
            self.is_copied = true;
        }
        (copy, keys, paddings.as_mut())
    }
}
