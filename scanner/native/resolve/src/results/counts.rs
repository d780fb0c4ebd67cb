//! A run's counters.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::results::outcome::Outcome;
use crate::status::Status;
use crate::wire::types::QType;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Names with rows.
    pub names: u64,
    /// Rejected lines of the list.
    pub rejected: u64,
    /// Names that the segments of an earlier run answer (`--resume`).
    pub resumed: u64,
    /// Started names without rows, because the run was interrupted.
    pub not_done: u64,
    /// Messages with an id that matches no open question of their socket.
    pub unmatched: u64,
    /// Messages with the id of a question that answer another question or are not a response.
    pub foreign: u64,
    /// Truncated UDP answers. Their questions were repeated over TCP.
    pub truncated: u64,
    /// Records without a row, because their answer has too many records.
    pub records_left_out: u64,
    /// Questions by type and status, for example `A_NOERROR`.
    #[serde(flatten)]
    statuses: Statuses,
}

#[derive(Clone, Debug, Default)]
struct Statuses([[u64; Status::ALL.len()]; QType::ALL.len()]);

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (qtype, counts) in QType::ALL.iter().zip(&self.0) {
            for (status, count) in Status::ALL
                .iter()
                .zip(counts)
                .filter(|(_, count)| **count > 0)
            {
                map.serialize_entry(&format!("{}_{}", qtype.name(), status.name()), count)?;
            }
        }
        map.end()
    }
}

impl Counts {
    /// Counts a finished question.
    pub fn record(&mut self, outcome: &Outcome) {
        self.statuses.0[outcome.qtype as usize][outcome.status as usize] += 1;
        self.records_left_out += u64::from(outcome.left_out);
    }

    /// Returns the number of questions of all types by status.
    pub fn by_status(&self) -> impl Iterator<Item = (Status, u64)> {
        let sum = |status: Status| -> u64 {
            self.statuses
                .0
                .iter()
                .map(|counts| counts[status as usize])
                .sum()
        };
        Status::ALL
            .into_iter()
            .map(move |status| (status, sum(status)))
    }
}
