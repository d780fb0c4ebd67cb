//! What is counted during a run.

use firstflight_core::conclusion::Counted;
use firstflight_core::records::Tally;
use serde::Serialize;

use crate::outcome::Outcome;

/// Counters of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Targets and records.
    #[serde(flatten)]
    pub tally: Tally<Outcome>,
    /// Connections that were begun.
    pub connections: u64,
    /// Those of them that asked again because a SYN was lost.
    pub again: u64,
}

impl Counted for Counts {
    type Outcome = Outcome;

    fn tally(&self) -> &Tally<Outcome> {
        &self.tally
    }

    fn missing_stamps(&self) -> (u64, u64) {
        (0, 0)
    }
}
