//! The trailer of a record without padding: its gaps and the keys that restore them. docs/interfaces.md describes each
//! byte.

use firstflight_wire::{ConnectionId, MAX_CID_LEN};
use smallvec::SmallVec;

use super::LONGEST;

/// The last bytes of such a record. A record that is cut after a packet's Length field cannot end in these bytes: the
/// last byte is not a 1-byte Length, the third byte does not start a 2-byte Length, and the first byte does not start a
/// 4-byte Length. In an 8-byte Length, the first of these bytes is zero.
pub const MAGIC: [u8; 4] = [0xf1, 0x50, 0xc4, 0xd7];

/// Maximum number of gaps per record.
pub(super) const MOST_GAPS: usize = 16;
/// Length of the fixed part: offset of the datagram, captured bytes, number of gaps, kind of key, MAGIC.
const FIXED: usize = 10;
const GAP: usize = 4;
/// In the kind of key: the client encrypted the packets. The lower bits are the length of the connection ID.
const FROM_CLIENT: u8 = 0x80;

/// A frame's omitted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A frame's omitted bytes, and the information to restore them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// In order, without empty gaps.
    pub(super) gaps: SmallVec<[Gap; 2]>,
    /// The connection ID that Initial keys are derived from.
    pub(super) cid: ConnectionId,
    pub(super) from_client: bool,
    /// Offset of the datagram in the frame.
    pub(super) datagram: usize,
    /// Length of the frame, including omitted bytes.
    pub(super) captured: usize,
}

impl Form {
    /// Number of omitted bytes.
    pub(super) fn missing(&self) -> usize {
        self.gaps.iter().map(|gap| gap.end - gap.start).sum()
    }

    /// Length of the form.
    pub(super) fn size(&self) -> usize {
        FIXED + self.gaps.len() * GAP + self.cid.len()
    }

    /// Appends the remaining bytes of `frame`, then the form. `frame` has `captured` bytes, at most `LONGEST`.
    pub(super) fn write(&self, frame: &[u8], out: &mut Vec<u8>) {
        let number = |value: usize| (value as u16).to_be_bytes();
        let mut at = 0;
        for gap in &self.gaps {
            out.extend_from_slice(&frame[at..gap.start]);
            at = gap.end;
        }
        out.extend_from_slice(&frame[at..]);
        for gap in &self.gaps {
            out.extend(number(gap.start));
            out.extend(number(gap.end - gap.start));
        }
        out.extend_from_slice(self.cid.as_slice());
        out.extend(number(self.datagram));
        out.extend(number(self.captured));
        let side = if self.from_client { FROM_CLIENT } else { 0 };
        out.extend([self.gaps.len() as u8, side | self.cid.len() as u8]);
        out.extend(MAGIC);
    }

    /// Parses the form at the end of `record`, and returns it with the bytes before it. Returns `None` if there is no
    /// form or if it is inconsistent.
    pub(super) fn read(record: &[u8]) -> Option<(Form, &[u8])> {
        let (rest, fixed) = record.split_last_chunk::<FIXED>()?;
        let [d0, d1, c0, c1, count, kind, magic @ ..] = *fixed;
        if magic != MAGIC {
            return None;
        }
        let number = |high, low| usize::from(u16::from_be_bytes([high, low]));
        let (datagram, captured) = (number(d0, d1), number(c0, c1));
        let length = usize::from(kind & !FROM_CLIENT);
        let count = usize::from(count);
        if length > MAX_CID_LEN || !(1..=MOST_GAPS).contains(&count) {
            return None;
        }
        let (rest, cid) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
        let (kept, gaps) = rest.split_at_checked(rest.len().checked_sub(count * GAP)?)?;
        let mut form = Form {
            gaps: SmallVec::new(),
            cid: ConnectionId::new(cid).ok()?,
            from_client: kind & FROM_CLIENT != 0,
            datagram,
            captured,
        };
        let mut before = datagram;
        for gap in gaps.as_chunks::<GAP>().0 {
            let start = number(gap[0], gap[1]);
            let end = start + number(gap[2], gap[3]);
            if start < before || end == start || end > captured {
                return None;
            }
            before = end;
            form.gaps.push(Gap { start, end });
        }
        let is_whole = captured <= LONGEST && kept.len() + form.missing() == captured;
        is_whole.then_some((form, kept))
    }
}
