//! Restores frames in captures with records without padding.

use smallvec::SmallVec;

use super::Frame;
use super::pcap::Batch;
use crate::padding::{Restored, Restorer};

/// Length of a record's header.
const HEADER: u64 = 16;

/// Restores the padding of frames.
#[derive(Default)]
pub(super) struct Unpadded {
    restorer: Restorer,
    /// The last restored frames.
    room: Vec<u8>,
    damaged: u64,
    /// Offset in the file of the first damaged record.
    from: u64,
}

impl Unpadded {
    /// Returns the frames as they were captured. `offset` is the file offset of the first record. A frame that cannot
    /// be restored keeps only the remaining bytes.
    pub(super) fn restored<'a>(&'a mut self, records: &'a [Frame<'a>], offset: u64) -> Batch<'a> {
        self.room.clear();
        let mut ends: SmallVec<[Restored; 16]> = SmallVec::new();
        let mut lengths: SmallVec<[usize; 16]> = SmallVec::new();
        let mut at = offset;
        for record in records {
            let before = self.room.len();
            let restored = (self.restorer).restore(record.data, record.cut, &mut self.room);
            if let Restored::Damaged(_) = restored {
                if self.damaged == 0 {
                    self.from = at;
                }
                self.damaged += 1;
            }
            ends.push(restored);
            lengths.push(self.room.len() - before);
            at += HEADER + record.data.len() as u64;
        }
        let mut room = self.room.as_slice();
        let restored = records.iter().zip(ends).zip(lengths);
        let frames = restored.map(|((record, end), length)| {
            let data = match end {
                Restored::AsItIs => record.data,
                Restored::Damaged(left) => &record.data[..left],
                Restored::Whole => {
                    let (frame, behind) = room.split_at(length);
                    room = behind;
                    frame
                }
            };
            let on_wire = record.data.len() + record.cut;
            Frame {
                data,
                cut: on_wire - data.len(),
                ..*record
            }
        });
        frames.collect()
    }

    /// Offset of the first record that could not be restored, and a message; `None` if all were restored.
    pub(super) fn damaged(&self) -> Option<(u64, String)> {
        let count = self.damaged;
        (count > 0).then(|| {
            let what = format!(
                "expected the omitted padding of this record to match its tag: {count} damaged \
                 records count as cut by the capture; restore the file from a backup"
            );
            (self.from, what)
        })
    }
}
