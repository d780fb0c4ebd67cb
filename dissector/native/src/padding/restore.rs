//! Puts padding back into a record.

use firstflight_wire::{PacketType, TAG_LEN, parse_packet};

use super::form::{Form, Gap};
use super::keys::{InitialKeys, KeySource};

/// What a record was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// One that lacks no padding: nothing was added.
    AsItIs,
    /// One whose frame was added: to the byte what was captured, as the tags prove.
    Whole,
    /// One that claims to lack padding, which cannot be put back. So many bytes of it are of the frame.
    Damaged(usize),
}

/// Puts padding back into records.
#[derive(Default)]
pub struct Restorer {
    keys: InitialKeys,
    work: Vec<u8>,
}

impl Restorer {
    /// Appends to `out` the frame of `record`, of which `missing` bytes more were on the wire.
    pub fn restore(&mut self, record: &[u8], missing: usize, out: &mut Vec<u8>) -> Restored {
        Refill {
            keys: &mut self.keys,
            work: &mut self.work,
        }
        .restore(record, missing, out)
    }
}

/// Puts padding back into a record with keys from anywhere; `work` is room for a copy.
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

    /// Appends the frame, which begins at `begin` of `out`; false if a gap is none of padding.
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
                // Zeros behind the last packet, which stand there already.
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
