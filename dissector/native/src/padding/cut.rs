//! Removes padding from records.

use firstflight_wire::{
    ConnectionId, KeyCache, KeyMaterial, Keys, Opened, Packet, PacketType, SAMPLE_END, TAG_LEN,
    Version, decode_packet_number, parse_packet,
};
use smallvec::SmallVec;

use super::form::{Form, Gap, MOST_GAPS};
use super::keys::KeySource;
use super::restore::Refill;
use super::{LONGEST, Restored};

/// Shortest gap that is worth an entry in the form.
const SHORTEST: usize = 16;
/// One in this many records without padding is completely restored as a check, starting with the first.
const CHECKED: u32 = 16;

/// A decrypted Initial and the padding.
#[derive(Clone, Copy)]
pub struct Padding {
    start: usize,
    /// Number of zeros at the end of the payload that a reader can restore.
    zeros: usize,
    /// The connection ID that the keys are derived from.
    cid: ConnectionId,
    keys: KeyMaterial,
}

impl Padding {
    /// The padding of `packet`, decrypted with `keys`, which are derived from `cid`.
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

/// Whether a reader without state from earlier packets decodes the same packet number.
fn is_numbered_alone(opened: &Opened<'_>) -> bool {
    let sent = (opened.packet_number & (u64::MAX >> (64 - 8 * opened.pn_len))) as u32;
    decode_packet_number(None, sent, opened.pn_len) == opened.packet_number
}

/// Number of zeros at the end of `bytes`: about a kilobyte in most Initials.
pub(super) fn zeros_behind(bytes: &[u8]) -> usize {
    let (rest, blocks) = bytes.as_rchunks::<16>();
    let is_zero = |block: &&[u8; 16]| u128::from_ne_bytes(**block) == 0;
    let whole = 16 * blocks.iter().rev().take_while(is_zero).count();
    let before = blocks.len() * 16 - whole + rest.len();
    let zeros = bytes[..before].iter().rev().take_while(|byte| **byte == 0);
    whole + zeros.count()
}

/// The datagram in a frame.
pub struct Sealed<'a> {
    /// Offset of the datagram in the frame.
    pub at: usize,
    pub from_client: bool,
    /// The decrypted Initials, in order.
    pub opened: &'a [Padding],
    /// The key schedules of these Initials, which also encrypt them again.
    pub schedules: &'a mut KeyCache,
}

/// A side's keys, by version.
type KnownKeys = SmallVec<[(Version, KeyMaterial); 1]>;

/// The keys for a datagram's decrypted Initials.
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

/// A record cannot be restored: a bug in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRestored;

/// Removes padding from records.
#[derive(Default)]
pub struct Cutter {
    work: Vec<u8>,
    frame: Vec<u8>,
    /// Number of records cut.
    cut: u32,
}

impl Cutter {
    /// Writes the record of `frame` to `out`, without the padding of Initials and without zeros after the last packet.
    /// `missing` is the number of bytes on the wire after `frame`. Returns false if the record would not be shorter.
    ///
    /// The padding in a decrypted Initial can be restored, because the record gives the keys and packet number. So
    /// `cut` only checks that the form reads back unchanged. For one in `CHECKED` records, it also restores the record
    /// and compares it with the frame.
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
            .map_or(ConnectionId::EMPTY, |initial| initial.cid);
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

/// The gaps of `frame`, and the keys to encrypt it again, by version.
fn gaps(frame: &[u8], sealed: &Sealed<'_>, cid: &ConnectionId) -> (SmallVec<[Gap; 2]>, KnownKeys) {
    let (mut gaps, mut keys) = (SmallVec::new(), KnownKeys::new());
    let mut at = sealed.at;
    while at < frame.len() && gaps.len() < MOST_GAPS {
        let Ok(packet) = parse_packet(&frame[at..], 0, 0) else {
            // Some stacks pad a datagram with zeros after the last packet.
            let end = frame.len();
            if at > sealed.at && end - at >= SHORTEST && frame[at..].iter().all(|b| *b == 0) {
                gaps.push(Gap { start: at, end });
            }
            break;
        };
        if packet.kind == PacketType::Initial
            && let Some(found) =
                (sealed.opened.iter()).find(|initial| sealed.at + initial.start == at)
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
