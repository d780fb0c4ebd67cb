//! What is counted during a run.

use firstflight_core::records::Tally;
use serde::Serialize;

use crate::outcome::Outcome;

/// Counters of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Targets and records.
    #[serde(flatten)]
    pub tally: Tally<Outcome>,
    /// Datagrams that the system refused to send.
    pub failed_datagrams: u64,
    /// Datagrams that belong to no connection.
    pub unmatched: u64,
    /// ICMP messages that belong to no connection.
    pub unmatched_icmp: u64,
    /// Records without times because the kernel gave no transmit stamp.
    pub missing_tx_stamps: u64,
    /// Datagrams dropped because the kernel gave no receive stamp.
    pub missing_rx_stamps: u64,
}
