//! The copy of a datagram in which its packets are opened.

use firstflight_wire::KeyCache;

use crate::padding::Padding;

/// Where packets are opened: one for all connections.
#[derive(Default)]
pub(super) struct Scratch {
    copy: Vec<u8>,
    keys: KeyCache,
    /// Initials of the newest datagram that opened; `None`: nobody wants to know.
    paddings: Option<Vec<Padding>>,
}

impl Scratch {
    /// Keeps a list of the Initials that open in a datagram.
    pub(super) fn note_paddings(&mut self) {
        self.paddings = Some(Vec::new());
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
        } = &mut *self.scratch;
        if !self.is_copied {
            copy.clear();
            copy.extend_from_slice(self.sealed);
            self.is_copied = true;
        }
        (copy, keys, paddings.as_mut())
    }
}
