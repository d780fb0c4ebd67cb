//! Records of finished targets: the thread that writes them, segments, the summary of a run.

mod arrow_columns;
mod folder_lock;
pub(crate) mod outcome;
mod outputs;
mod resume;
mod segments;
pub mod summary;
mod tally;
mod writer;

pub use arrow_columns::ArrowColumns;
pub use folder_lock::FolderLock;
pub use outcome::Outcome;
pub use outputs::{Format, OutputArguments, OutputOptions, Outputs};
pub use resume::leave_out_answered;
pub use segments::{Answered, Refused, Segments};
pub use tally::Tally;
pub use writer::{RowSink, SideTables, Sinks, Writer};

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use serde::Serialize;

use crate::Failure;
use crate::targets::{Target, TargetList, TargetRef};

/// Rows on their way to a segment, of one kind of record.
///
/// Columns that every kind with one row per target has: `target` (uint32), `ip`, `domain` and `outcome`
/// (text).
pub trait Columns: Default + Send + 'static {
    /// A segment is closed at this many rows.
    const MOST_ROWS: usize = 65_536;

    /// One row, with texts borrowed where possible; serialized as a JSON line.
    type Row<'a>: Serialize;

    /// Names and types of the columns.
    fn schema() -> Arc<Schema>;

    /// Adds a row.
    fn push(&mut self, row: &Self::Row<'_>);

    /// Returns the number of rows.
    fn len(&self) -> usize;

    /// Returns whether the segment is to be closed, however young it is.
    fn is_full(&self) -> bool {
        self.len() >= Self::MOST_ROWS
    }

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

/// Something finished that the writing thread makes rows of, any number of them. A [`Record`] has one row.
pub trait Rows: Send + Sized + 'static {
    /// The columns of its rows.
    type Columns: Columns;
    /// Rows of other kinds.
    type Sides: SideTables;
    /// What rows are made with, besides this.
    type Context: Send + 'static;
    /// How many the thread gets at once.
    const BATCH: usize = 256;
    /// With more than this beside the full queue, nothing new is sent.
    const MOST_KEPT: usize = 65_536;

    /// Passes the rows on; all of them get into the same segment.
    fn write(
        &self,
        context: &Self::Context,
        to: &mut RowSink<Self::Columns, Self::Sides>,
    ) -> Result<(), Failure>;

    /// Returns whether segments have the column `asn`.
    fn has_asn(_context: &Self::Context) -> bool {
        false
    }
}

impl<R: Record> Rows for R {
    type Columns = <R as Record>::Columns;
    type Sides = ();
    type Context = Arc<TargetList>;

    fn write(
        &self,
        list: &Arc<TargetList>,
        to: &mut RowSink<<R as Record>::Columns>,
    ) -> Result<(), Failure> {
        let target = list.look(self.target());
        to.row(&self.row(&target), target.asn)
    }

    fn has_asn(list: &Arc<TargetList>) -> bool {
        list.has_asn()
    }
}
