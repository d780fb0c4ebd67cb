//! The outcomes and the rows of an echo ping.

use std::sync::Arc;

use arrow_array::builder::{PrimitiveBuilder, StringBuilder};
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use firstflight_core::conclusion::Counted;
use firstflight_core::outcomes;
use firstflight_core::records::{self, Record, Tally};
use firstflight_core::targets::{Target, TargetRef};
use serde::Serialize;

outcomes! {
    /// A ping's outcome.
    pub enum Outcome {
        Answered = "answered",
        Timeout = "timeout",
        SendFailed = "send_failed",
        Blocked = "blocked",
    }
}

/// The counts of a run.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub struct Counts(pub Tally<Outcome>);

impl Counted for Counts {
    type Outcome = Outcome;

    fn tally(&self) -> &Tally<Outcome> {
        &self.0
    }

    fn missing_stamps(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// A finished ping.
pub struct Ping {
    pub target: TargetRef,
    pub outcome: Outcome,
    /// Time from the kernel's stamp of the request to its stamp of the echo.
    pub round_trip_us: Option<i64>,
}

impl Record for Ping {
    type Columns = Columns;

    fn target(&self) -> &TargetRef {
        &self.target
    }

    fn row<'a>(&'a self, target: &Target<'a>) -> EchoRow<'a> {
        EchoRow {
            target: target.line,
            domain: target.domain,
            ip: target.ip_text,
            outcome: records::Outcome::name(self.outcome),
            round_trip_us: self.round_trip_us,
        }
    }
}

/// One row.
#[derive(Serialize)]
pub struct EchoRow<'a> {
    target: u32,
    domain: &'a str,
    ip: &'a str,
    outcome: &'static str,
    round_trip_us: Option<i64>,
}

/// Rows collected for a segment.
#[derive(Default)]
pub struct Columns {
    target: PrimitiveBuilder<UInt32Type>,
    texts: [StringBuilder; 3],
    round_trip_us: PrimitiveBuilder<Int64Type>,
    rows: usize,
}

impl records::Columns for Columns {
    type Row<'a> = EchoRow<'a>;

    fn schema() -> Arc<Schema> {
        Arc::new(Schema::new(vec![
            Field::new("target", DataType::UInt32, false),
            Field::new("domain", DataType::Utf8, false),
            Field::new("ip", DataType::Utf8, false),
            Field::new("outcome", DataType::Utf8, false),
            Field::new("round_trip_us", DataType::Int64, true),
        ]))
    }

    fn push(&mut self, row: &EchoRow<'_>) {
        self.target.append_value(row.target);
        for (column, text) in self.texts.iter_mut().zip([row.domain, row.ip, row.outcome]) {
            column.append_value(text);
        }
        self.round_trip_us.append_option(row.round_trip_us);
        self.rows += 1;
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        self.rows = 0;
        let mut columns: Vec<ArrayRef> = vec![Arc::new(self.target.finish())];
        for text in &mut self.texts {
            columns.push(Arc::new(text.finish()));
        }
        columns.push(Arc::new(self.round_trip_us.finish()));
        RecordBatch::try_new(schema, columns)
    }
}
