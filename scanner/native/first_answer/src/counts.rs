//! What is counted during a run, and whether it adds up.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::outcome::Outcome;
use firstflight_core::error::Failure;

/// Counters of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Targets in the list, without rejected lines.
    pub targets: u64,
    /// Lines of the list that were not understood.
    pub rejected: u64,
    /// Targets that were sent at least one Initial and have a record.
    pub sent: u64,
    /// Targets answered by the segments of an earlier run (`--resume`); their outcomes are counted too.
    pub resumed: u64,
    /// Targets without record because the run was interrupted or broke off.
    pub not_done: u64,
    /// PlannedProbes of the feed that were not probed (`--skipped` has the reasons); those that were count among the targets.
    pub skipped: u64,
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
    /// ICMP messages that say that a server's port is unreachable, come from elsewhere, and quote no connection ID.
    pub unproven_icmp: u64,
    /// Records without times because the kernel gave no transmit stamp.
    pub missing_tx_stamps: u64,
    /// Datagrams dropped because the kernel gave no receive stamp.
    pub missing_rx_stamps: u64,
    /// Records by outcome.
    #[serde(serialize_with = "by_name")]
    pub outcomes: [u64; Outcome::ALL.len()],
}

fn by_name<S: Serializer>(counts: &[u64; Outcome::ALL.len()], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(counts.len()))?;
    for outcome in Outcome::ALL {
        map.serialize_entry(outcome.name(), &counts[outcome as usize])?;
    }
    map.end()
}

impl Counts {
    /// Counts a record; `sent`: something was sent for it.
    pub fn record(&mut self, outcome: Outcome, sent: bool) {
        self.outcomes[outcome as usize] += 1;
        self.sent += u64::from(sent);
    }

    /// Records of all outcomes.
    pub fn records(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Records of one outcome.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Checks that targets = blocked + send_failed + sent (+ not done), and sent = all other outcomes.
    pub fn check(&self) -> Result<(), Failure> {
        let unsent = self.of(Outcome::Blocked) + self.of(Outcome::SendFailed);
        let records: u64 = self.outcomes.iter().sum();
        if self.targets == unsent + self.sent + self.not_done && records - unsent == self.sent {
            return Ok(());
        }
        Err(Failure::Accounting(format!(
            "the counts of this run do not add up, which is a defect of the prober: {self:?}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_checked() {
        let mut counts = Counts {
            targets: 3,
            ..Counts::default()
        };
        counts.record(Outcome::Blocked, false);
        counts.record(Outcome::Iack, true);
        assert!(counts.check().is_err());
        counts.record(Outcome::SendFailed, false);
        assert!(counts.check().is_ok());
        counts.record(Outcome::Timeout, false);
        assert!(counts.check().is_err());
    }
}
