//! Restores a record's padding.

use firstflight_wire::{PacketType, TAG_LEN, parse_packet};

use super::form::{Form, Gap};
use super::keys::{InitialKeys, KeySource};

/// The result for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The record has the padding. Nothing was appended.
    AsItIs,
    /// The frame was appended, exactly as captured. The tags prove it.
    Whole,
    /// The record claims to lack padding, but it cannot be restored. This many bytes belong to the frame.
    Damaged(usize),
}

/// Restores the padding of records.
#[derive(Default)]
pub struct Restorer {
    keys: InitialKeys,
    work: Vec<u8>,
}

impl Restorer {
    /// Appends the frame of `record` to `out`. `missing` is the number of bytes on the wire after the record.
    pub fn restore(&mut self, record: &[u8], missing: usize, out: &mut Vec<u8>) -> Restored {
        Refill {
            keys: &mut self.keys,
            work: &mut self.work,
        }
        .restore(record, missing, out)
    }
}

/// Restores a record's padding with any source of keys. `work` is scratch memory.
pub(super) struct Refill<'a, K> {
    pub(super) keys: &'a mut K,
    pub(super) work: &'a mut Vec<u8>,
}

impl<K: KeySource> Refill<'_, K> {
    /// As [`Restorer::restore`].
    pub(super) fn restore(&mut self, record: &[u8], missing: usize, out: &mut Vec<u8>) -> Restored {
        if missing == 0 {
            return Restored::AsItIs;
        }
        let Some((form, kept)) = Form::read(record) else {
            return Restored::AsItIs;
        };
        let begin = out.len();
        if form.captured > record.len() + missing || !self.fill(&form, kept, out, begin) {
            out.truncate(begin);
            let first = form.gaps.first().map_or(0, |gap| gap.start);
            return Restored::Damaged(first.min(kept.len()));
        }
        Restored::Whole
    }

    /// Appends the frame at offset `begin` of `out`. Returns false if a gap is not padding.
    fn fill(&mut self, form: &Form, kept: &[u8], out: &mut Vec<u8>, begin: usize) -> bool {
        let mut rest = kept;
        for gap in &form.gaps {
            let (before, behind) = rest.split_at(gap.start - (out.len() - begin));
            out.extend_from_slice(before);
            out.resize(begin + gap.end, 0);
            rest = behind;
        }
        out.extend_from_slice(rest);
        let frame = &mut out[begin..];
        let mut gaps = form.gaps.as_slice();
        let mut at = form.datagram;
        while let [gap, others @ ..] = gaps {
            let Some(datagram) = frame.get_mut(at..).filter(|bytes| !bytes.is_empty()) else {
                return false;
            };
            let Ok(packet) = parse_packet(datagram, 0, 0) else {
                // Zeros after the last packet, which are already in place.
                let tail = Gap {
                    start: at,
                    end: form.captured,
                };
                return at > form.datagram && *gap == tail && others.is_empty();
            };
            if gap.start < at + packet.end {
                let is_padding =
                    packet.kind == PacketType::Initial && gap.end + TAG_LEN == at + packet.end;
                let keys = (self.keys).keys(packet.version, &form.cid, form.from_client);
                let Some(keys) = keys.filter(|_| is_padding) else {
                    return false;
                };
                let length = gap.end - gap.start;
                let sealed = keys.seal_padding(datagram, &packet, length, self.work);
                if sealed.is_err() {
                    return false;
                }
                gaps = others;
            }
            at += packet.end;
        }
        true
    }
}
