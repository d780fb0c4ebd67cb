//! The copy of a datagram in which its packets are opened.

use firstflight_wire::KeyCache;

/// Where packets are opened: one for all connections.
#[derive(Default)]
pub(super) struct Scratch {
    copy: Vec<u8>,
    keys: KeyCache,
}

/// A datagram, and a copy of it where packets are opened in place, made when the first one is.
pub(super) struct Bytes<'a> {
    pub(super) sealed: &'a [u8],
    scratch: &'a mut Scratch,
    is_copied: bool,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(sealed: &'a [u8], scratch: &'a mut Scratch) -> Bytes<'a> {
        Bytes {
            sealed,
            scratch,
            is_copied: false,
        }
    }

    /// The copy, and the keys made last.
    pub(super) fn copy_and_keys(&mut self) -> (&mut [u8], &mut KeyCache) {
        let Scratch { copy, keys } = &mut *self.scratch;
        if !self.is_copied {
            copy.clear();
            copy.extend_from_slice(self.sealed);
            self.is_copied = true;
        }
        (copy, keys)
    }
}
