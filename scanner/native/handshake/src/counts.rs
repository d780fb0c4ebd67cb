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
    /// Datagrams that the system refused to send.
    pub failed_datagrams: u64,
    /// Second connections that sent at least one datagram.
    pub second: u64,
    /// Total number of probe timeouts.
    pub retransmissions: u64,
    /// Datagrams that belong to no connection.
    pub unmatched: u64,
    /// ICMP messages that belong to no connection.
    pub unmatched_icmp: u64,
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
