//! Resumes an interrupted run: targets that closed segments answer are not probed again.

use super::{Columns, Outcome, Segments, Tally};
use crate::Failure;
use crate::input::targets::TargetList;

/// Removes from `order` the targets that earlier segments answer, and counts their outcomes.
pub fn leave_out_answered<C: Columns, O: Outcome>(
    order: &mut Vec<u32>,
    tally: &mut Tally<O>,
    segments: &Segments<C>,
    targets: &TargetList,
) -> Result<(), Failure> {
    let answered = segments.answered::<O>(targets)?;
    order.retain(|target| !answered.done[*target as usize]);
    tally.resumed = answered.outcomes.len() as u64;
    for outcome in answered.outcomes {
        tally.record(outcome, outcome.was_sent());
    }
    Ok(())
}
