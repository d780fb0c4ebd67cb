//! A datagram's copy for in-place decryption.

use std::hash::BuildHasher;

use firstflight_wire::KeyCache;
use foldhash::fast::FixedState;

use crate::padding::Padding;

/// Approximate number of datagrams over which a repetition is detected.
const RECENT: usize = 1 << 12;

/// Memory for decryption, shared by all connections.
#[derive(Default)]
pub(super) struct Scratch {
    copy: Vec<u8>,
    keys: KeyCache,
    /// Decrypted Initials of the newest datagram; `None` if they are not requested.
    paddings: Option<Vec<Padding>>,
    /// Hashes of datagrams. A hash determines its own index.
    recent: Vec<u64>,
    /// Index of the newest hash.
    newest: usize,
}

impl Scratch {
    /// Records the Initials that decrypt in a datagram.
    pub(super) fn note_paddings(&mut self) {
        self.paddings = Some(Vec::new());
    }

    /// Whether the datagram `bytes` was recently seen.
    fn is_repeat(&mut self, bytes: &[u8]) -> bool {
        self.recent.resize(RECENT, 0);
        let hash = FixedState::default().hash_one(bytes);
        self.newest = hash as usize % RECENT;
        std::mem::replace(&mut self.recent[self.newest], hash) == hash
    }

    /// Forgets the newest datagram, because it will be processed again for another connection.
    pub(super) fn forget_newest(&mut self) {
        if let Some(hash) = self.recent.get_mut(self.newest) {
            *hash = 0;
        }
    }

    /// Starts a new datagram.
    pub(super) fn begin(&mut self) {
        if let Some(paddings) = &mut self.paddings {
            paddings.clear();
        }
    }

    /// The decrypted Initials of the newest datagram, with their padding, and the most recent keys.
    pub(super) fn paddings(&mut self) -> (&[Padding], &mut KeyCache) {
        let paddings = self.paddings.as_deref().unwrap_or_default();
        (paddings, &mut self.keys)
    }
}

/// A datagram, and a copy of it for in-place decryption. The copy is made on first use.
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

    /// Whether the same datagram was seen before: a mirror port may show each twice.
    pub(super) fn is_repeat(&mut self) -> bool {
        !self.sealed.is_empty() && self.scratch.is_repeat(self.sealed)
    }

    /// The copy and the most recent keys.
    pub(super) fn copy_and_keys(&mut self) -> (&mut [u8], &mut KeyCache) {
        let (copy, keys, _) = self.parts();
        (copy, keys)
    }

    /// The copy, the most recent keys and, if requested, the list of decrypted Initials.
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

#[cfg(test)]
mod tests;
