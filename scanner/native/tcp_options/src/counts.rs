//! A run's counters.

use firstflight_core::conclusion::Counted;
use firstflight_core::records::Tally;
use serde::Serialize;

use crate::outcome::Outcome;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Targets and records.
    #[serde(flatten)]
    pub tally: Tally<Outcome>,
    /// Connections started.
    pub connections: u64,
    /// Further connections to a target, because a SYN was lost or a SYN-ACK did not agree to ECN.
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
