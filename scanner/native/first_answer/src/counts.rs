//! A run's counters: targets, records and datagrams.

use firstflight_core::conclusion::Counted;
use firstflight_core::records::Tally;
use serde::Serialize;

use crate::outcome::Outcome;

/// A run's counters.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Targets and records.
    #[serde(flatten)]
    pub tally: Tally<Outcome>,
    /// Second and later connections to a target.
    pub retransmissions: u64,
    pub token_initials: u64,
    pub closes: u64,
    /// Closes that the system refused to send.
    pub failed_closes: u64,
    /// Datagrams that belong to no probe.
    pub unmatched: u64,
    /// ICMP messages that belong to no probe.
    pub unmatched_icmp: u64,
    /// ICMP port unreachable messages that are not from the server and quote no connection ID.
    pub unproven_icmp: u64,
    /// Records without times because the kernel gave no transmit stamp.
    pub missing_tx_stamps: u64,
    /// Datagrams dropped because the kernel gave no receive stamp.
    pub missing_rx_stamps: u64,
}

impl Counted for Counts {
    type Outcome = Outcome;

    fn tally(&self) -> &Tally<Outcome> {
        &self.tally
    }

    fn missing_stamps(&self) -> (u64, u64) {
        (self.missing_tx_stamps, self.missing_rx_stamps)
    }
}
