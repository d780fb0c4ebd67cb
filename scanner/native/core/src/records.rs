//! Records of finished targets: the thread that writes them, segments, the summary of a run.

mod outcome;
mod outputs;
mod resume;
mod segments;
pub mod summary;
mod tally;
mod writer;

pub use outcome::Outcome;
pub use outputs::{OutputOptions, Outputs};
pub use resume::leave_out_answered;
pub use segments::{Answered, Segments};
pub use tally::Tally;
pub use writer::{Sinks, Writer};

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use serde::Serialize;

use crate::targets::{Target, TargetRef};

/// Rows on their way to a segment, of one kind of record.
///
/// Columns that every kind has: `target` (uint32), `ip`, `domain` and `outcome` (text).
pub trait Columns: Default + Send + 'static {
    /// One row, with texts borrowed where possible; serialized as a JSON line.
    type Row<'a>: Serialize;

    /// Names and types of the columns.
    fn schema() -> Arc<Schema>;

    /// Adds a row.
    fn push(&mut self, row: &Self::Row<'_>);

    /// Returns the number of rows.
    fn len(&self) -> usize;

    /// Returns whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all rows as a batch and empties the columns.
    fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError>;
}

/// A finished target, on its way to the thread that makes a row of it.
pub trait Record: Send + 'static {
    /// The columns of its row.
    type Columns: Columns;

    /// The target it is about.
    fn target(&self) -> &TargetRef;

    /// Makes the row.
    fn row<'a>(&'a self, target: &Target<'a>) -> <Self::Columns as Columns>::Row<'a>;
}
