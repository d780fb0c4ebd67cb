//! Detects runs of frames without captured data. A full disk or a crash may leave zeros at the end of a capture. Such a
//! frame is 16 zeros. A compressed or sparse file with a few kilobytes can hold billions of them.

use super::Frame;

/// Longest plausible run: every program captures at least the headers.
const MOST: u64 = 1024;

/// Length of the current run.
#[derive(Default)]
pub(super) struct EmptyRun {
    count: u64,
    /// Offset of the first frame.
    from: u64,
}

impl EmptyRun {
    /// Records consecutive frames, `size` bytes at `offset`. Returns the offset of the run and a message if it is too
    /// long.
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
