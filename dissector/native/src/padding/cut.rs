//! Leaves padding out of a record.

use firstflight_wire::{ConnectionId, PacketType, SAMPLE_END, TAG_LEN, parse_packet};
use smallvec::SmallVec;

use super::LONGEST;
use super::form::{Form, Gap, MOST_GAPS};
use super::keys::InitialKeys;

/// Shorter gaps are not worth their place in the form.
const SHORTEST: usize = 16;

/// What is known of the datagram in a frame.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    /// Where it begins in the frame.
    pub at: usize,
    /// What the Initial keys of its connection come from.
    pub cid: ConnectionId,
    pub from_client: bool,
}

/// Leaves padding out of records.
#[derive(Default)]
pub struct Cutter {
    keys: InitialKeys,
    work: Vec<u8>,
}

impl Cutter {
    /// Puts the record of `frame` without the padding of its Initials, and without zeros behind its last
    /// packet, into `out`. False, and nothing there, if that would not be shorter, or [`Restorer`](super::Restorer) could not
    /// put it back.
    pub fn cut(&mut self, frame: &[u8], sealed: &Sealed, out: &mut Vec<u8>) -> bool {
        out.clear();
        if frame.len() > LONGEST || frame.get(sealed.at).is_none_or(|byte| byte & 0x80 == 0) {
            return false;
        }
        let form = Form {
            gaps: self.gaps(frame, sealed),
            cid: sealed.cid,
            from_client: sealed.from_client,
            datagram: sealed.at,
            captured: frame.len(),
        };
        if form.gaps.is_empty() || form.missing() <= form.size() {
            return false;
        }
        form.write(frame, out);
        true
    }

    fn gaps(&mut self, frame: &[u8], sealed: &Sealed) -> SmallVec<[Gap; 2]> {
        let mut gaps = SmallVec::new();
        let mut at = sealed.at;
        while at < frame.len() && gaps.len() < MOST_GAPS {
            let Ok(packet) = parse_packet(&frame[at..], 0, 0) else {
                // Some stacks fill a datagram with zeros behind its last packet.
                let end = frame.len();
                if at > sealed.at && end - at >= SHORTEST && frame[at..].iter().all(|b| *b == 0) {
                    gaps.push(Gap { start: at, end });
                }
                break;
            };
            if packet.kind == PacketType::Initial
                && let Some(keys) =
                    (self.keys).keys(packet.version, &sealed.cid, sealed.from_client)
            {
                self.work.clear();
                self.work.extend_from_slice(&frame[at..at + packet.end]);
                if let Ok(opened) = keys.open(&mut self.work, &packet, None) {
                    let zeros = opened.payload.iter().rev().take_while(|b| **b == 0);
                    let end = packet.end - TAG_LEN;
                    let start = (end - zeros.count()).max(packet.pn_offset + SAMPLE_END);
                    if start + SHORTEST <= end {
                        gaps.push(Gap {
                            start: at + start,
                            end: at + end,
                        });
                    }
                }
            }
            at += packet.end;
        }
        gaps
    }
}
