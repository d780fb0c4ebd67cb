//! Leaves padding out of a record.

use firstflight_wire::{
    ConnectionId, KeyCache, KeyMaterial, Keys, Opened, Packet, PacketType, SAMPLE_END, TAG_LEN,
    Version, decode_packet_number, parse_packet,
};
use smallvec::SmallVec;

use super::form::{Form, Gap, MOST_GAPS};
use super::keys::KeySource;
use super::restore::Refill;
use super::{LONGEST, Restored};

/// Shorter gaps are not worth their place in the form.
const SHORTEST: usize = 16;
/// Of so many records without padding, the first one is restored as it is written.
const CHECKED: u32 = 16;

/// An Initial that was opened, by its place in the datagram.
#[derive(Clone, Copy)]
pub struct Padding {
    start: usize,
    /// Zeros at the end of its payload that a reader can put back.
    zeros: usize,
    /// What its keys come from.
    cid: ConnectionId,
    keys: KeyMaterial,
}

impl Padding {
    /// That of `packet`, which `keys`, those that come from `cid`, opened.
    pub fn of(
        packet: &Packet,
        opened: &Opened<'_>,
        cid: ConnectionId,
        keys: KeyMaterial,
    ) -> Padding {
        Padding {
            start: packet.start,
            zeros: if is_numbered_alone(opened) {
                zeros_behind(opened.payload)
            } else {
                0
            },
            cid,
            keys,
        }
    }
}

/// Whether a reader who knows no packet before decodes the same packet number.
fn is_numbered_alone(opened: &Opened<'_>) -> bool {
    let sent = (opened.packet_number & (u64::MAX >> (64 - 8 * opened.pn_len))) as u32;
    decode_packet_number(None, sent, opened.pn_len) == opened.packet_number
}

/// Number of zeros that `bytes` end with: a kilobyte of most Initials.
pub(super) fn zeros_behind(bytes: &[u8]) -> usize {
    let (rest, blocks) = bytes.as_rchunks::<16>();
    let is_zero = |block: &&[u8; 16]| u128::from_ne_bytes(**block) == 0;
    let whole = 16 * blocks.iter().rev().take_while(is_zero).count();
    let before = blocks.len() * 16 - whole + rest.len();
    let zeros = bytes[..before].iter().rev().take_while(|byte| **byte == 0);
    whole + zeros.count()
}

/// What is known of the datagram in a frame.
pub struct Sealed<'a> {
    /// Where it begins in the frame.
    pub at: usize,
    pub from_client: bool,
    /// Its Initials that were opened, in order.
    pub opened: &'a [Padding],
    /// The schedules that opened them, which seal them again.
    pub schedules: &'a mut KeyCache,
}

/// Keys of one side, of each version.
type KnownKeys = SmallVec<[(Version, KeyMaterial); 1]>;

/// The keys that opened the Initials of a datagram.
struct Known<'a> {
    cid: ConnectionId,
    from_client: bool,
    keys: KnownKeys,
    schedules: &'a mut KeyCache,
}

impl KeySource for Known<'_> {
    fn keys(&mut self, version: Version, cid: &ConnectionId, from_client: bool) -> Option<&Keys> {
        if (*cid, from_client) != (self.cid, self.from_client) {
            return None;
        }
        let (_, material) = self.keys.iter().find(|(of, _)| *of == version)?;
        Some(self.schedules.keys(&(*material).into()))
    }
}

/// A record that a reader could not put back: a fault of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRestored;

/// Leaves padding out of records.
#[derive(Default)]
pub struct Cutter {
    work: Vec<u8>,
    frame: Vec<u8>,
    /// Records without padding so far.
    cut: u32,
}

impl Cutter {
    /// Puts the record of `frame`, of which `missing` bytes more were on the wire, without the padding of its
    /// Initials, and without zeros behind its last packet, into `out`. False if that would not be shorter.
    ///
    /// What opened comes back from its keys, since they are the same and its number was sent; the form must be
    /// read as it was written. Of `CHECKED` records one is restored to its end, which must give the frame.
    pub fn cut(
        &mut self,
        frame: &[u8],
        missing: usize,
        sealed: Sealed<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, NotRestored> {
        out.clear();
        if frame.len() > LONGEST || frame.get(sealed.at).is_none_or(|byte| byte & 0x80 == 0) {
            return Ok(false);
        }
        let cid = sealed
            .opened
            .first()
            .map_or(ConnectionId::EMPTY, |one| one.cid);
        let (gaps, keys) = gaps(frame, &sealed, &cid);
        let form = Form {
            gaps,
            cid,
            from_client: sealed.from_client,
            datagram: sealed.at,
            captured: frame.len(),
        };
        if form.gaps.is_empty() || form.missing() <= form.size() {
            return Ok(false);
        }
        form.write(frame, out);
        if Form::read(out).is_none_or(|(read, _)| read != form) {
            return Err(NotRestored);
        }
        let is_checked = self.cut.is_multiple_of(CHECKED);
        self.cut = self.cut.wrapping_add(1);
        if !is_checked {
            return Ok(true);
        }
        self.frame.clear();
        let left_out = frame.len() + missing - out.len();
        let mut known = Known {
            cid,
            from_client: sealed.from_client,
            keys,
            schedules: sealed.schedules,
        };
        let restored = Refill {
            keys: &mut known,
            work: &mut self.work,
        }
        .restore(out, left_out, &mut self.frame);
        let is_whole = restored == Restored::Whole && self.frame == frame;
        is_whole.then_some(true).ok_or(NotRestored)
    }
}

/// What is left out of `frame`, and the keys that seal it again, of each version.
fn gaps(frame: &[u8], sealed: &Sealed<'_>, cid: &ConnectionId) -> (SmallVec<[Gap; 2]>, KnownKeys) {
    let (mut gaps, mut keys) = (SmallVec::new(), KnownKeys::new());
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
            && let Some(found) = (sealed.opened.iter()).find(|one| sealed.at + one.start == at)
            && found.cid == *cid
        {
            let end = packet.end - TAG_LEN;
            let start = (end - found.zeros.min(end)).max(packet.pn_offset + SAMPLE_END);
            if start + SHORTEST <= end {
                gaps.push(Gap {
                    start: at + start,
                    end: at + end,
                });
                if keys.iter().all(|(of, _)| *of != packet.version) {
                    keys.push((packet.version, found.keys));
                }
            }
        }
        at += packet.end;
    }
    (gaps, keys)
}
