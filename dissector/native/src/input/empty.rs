//! Frames of which nothing was captured, one after the other: the zeros that a full disk or a crash leaves
//! behind a capture are 16 bytes each of such, and a few kilobytes, compressed or sparse, hold billions of
//! them.

use super::Frame;

/// More than this in a row no capture holds: every program captures at least the headers.
const MOST: u64 = 1024;

/// How many there were in a row.
#[derive(Default)]
pub(super) struct EmptyRun {
    count: u64,
    /// Offset of the first.
    from: u64,
}

impl EmptyRun {
    /// Takes note of frames that follow each other, `size` bytes at `offset`. If there are too many without
    /// data, where they begin and what is wrong with them.
    #[inline]
    pub(super) fn add(
        &mut self,
        frames: &[Frame<'_>],
        offset: u64,
        size: usize,
    ) -> Result<(), (u64, String)> {
        let last = frames.iter().rev().take_while(|f| f.data.is_empty());
        let count = last.count();
        if count == 0 {
            self.count = 0;
            return Ok(());
        }
        if count < frames.len() || self.count == 0 {
            let data: usize = frames.iter().map(|f| f.data.len()).sum();
            let each = (size.saturating_sub(data)) / frames.len();
            self.from = offset + (size - count * each) as u64;
            self.count = 0;
        }
        self.count += count as u64;
        if self.count <= MOST {
            return Ok(());
        }
        Err((
            self.from,
            format!(
                "expected frames, found more than {MOST} in a row without a byte of data: a full disk or a \
                 crash leaves such zeros; what stands behind them is not read"
            ),
        ))
    }
}
