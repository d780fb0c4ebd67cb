//! Records of finished targets: the writing thread, segments, a run's summary.

mod arrow_columns;
mod folder_lock;
pub(crate) mod outcome;
mod outputs;
mod resume;
mod segments;
pub(crate) mod skips;
pub mod summary;
mod tally;
mod writer;

pub use arrow_columns::ArrowColumns;
pub use folder_lock::FolderLock;
pub use outcome::Outcome;
pub use outputs::{Format, OutputArguments, OutputOptions, Outputs};
pub use resume::leave_out_answered;
pub use segments::{Answered, Refused, Segments};
pub use skips::Skips;
pub use tally::Tally;
pub use writer::{RowSink, SideTables, Sinks, Writer};

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use serde::Serialize;

use crate::Failure;
use crate::input::targets::{Target, TargetList, TargetRef};

/// Rows of the same kind of record, collected for a segment.
///
/// Every kind with one row per target has the columns `target` (uint32), `ip`, `domain` and `outcome` (text).
pub trait Columns: Default + Send + 'static {
    /// Number of rows at which a segment is closed.
    const MOST_ROWS: usize = 65_536;

    /// One row, with texts borrowed where possible; serialized as a JSON line.
    type Row<'a>: Serialize;

    /// Returns the names and types of the columns.
    fn schema() -> Arc<Schema>;

    /// Adds a row.
    fn push(&mut self, row: &Self::Row<'_>);

    /// Returns the number of rows.
    fn len(&self) -> usize;

    /// Returns whether the segment must be closed, whatever the age.
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

/// A finished target, which the writing thread turns into a row.
pub trait Record: Send + 'static {
    /// The columns of the row.
    type Columns: Columns;

    /// Returns the target of this record.
    fn target(&self) -> &TargetRef;

    /// Makes the row.
    fn row<'a>(&'a self, target: &Target<'a>) -> <Self::Columns as Columns>::Row<'a>;
}

/// A finished item, which the writing thread turns into any number of rows. A [`Record`] has one row.
pub trait Rows: Send + Sized + 'static {
    /// The columns of the rows.
    type Columns: Columns;
    /// Rows of other kinds.
    type Sides: SideTables;
    /// Additional data from which rows are made.
    type Context: Send + 'static;
    /// Number of items that the thread receives at a time.
    const BATCH: usize = 256;
    /// Most items kept in addition to the full queue. Above this number, no new probe starts.
    const MOST_KEPT: usize = 65_536;

    /// Passes the rows on. All rows are written to the same segment.
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
