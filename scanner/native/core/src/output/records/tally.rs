//! Counts a run's targets and records, and checks that the counts add up.

use std::marker::PhantomData;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Outcome;
use crate::Failure;

/// Counters of targets and records.
#[derive(Clone, Debug, Serialize)]
#[serde(bound = "")]
pub struct Tally<O: Outcome> {
    /// Targets in the list, without rejected lines.
    pub targets: u64,
    /// Lines of the list that could not be parsed.
    pub rejected: u64,
    /// Targets that were sent at least one datagram and have a record.
    pub sent: u64,
    /// Targets that the segments of an earlier run answer (`--resume`). Their outcomes are also counted.
    pub resumed: u64,
    /// Targets without a record because the run was interrupted or failed.
    pub not_done: u64,
    /// Planned probes of the feed that were not sent (`--skipped` contains the reasons). Sent planned probes
    /// count as targets.
    pub skipped: u64,
    /// Records by outcome.
    outcomes: ByOutcome<O>,
}

/// A number for each outcome, in the order of definition.
#[derive(Clone, Debug)]
struct ByOutcome<O>(Vec<u64>, PhantomData<O>);

impl<O: Outcome> Serialize for ByOutcome<O> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (outcome, count) in O::ALL.iter().zip(&self.0) {
            map.serialize_entry(outcome.name(), count)?;
        }
        map.end()
    }
}

impl<O: Outcome> Default for Tally<O> {
    fn default() -> Self {
        Tally {
            targets: 0,
            rejected: 0,
            sent: 0,
            resumed: 0,
            not_done: 0,
            skipped: 0,
            outcomes: ByOutcome(vec![0; O::ALL.len()], PhantomData),
        }
    }
}

impl<O: Outcome> Tally<O> {
    /// Counts a record. `sent`: at least one datagram was sent for it.
    #[inline]
    pub fn record(&mut self, outcome: O, sent: bool) {
        self.outcomes.0[outcome.index()] += 1;
        self.sent += u64::from(sent);
    }

    /// Returns the total number of records.
    pub fn records(&self) -> u64 {
        self.outcomes.0.iter().sum()
    }

    /// Returns the number of records with this outcome.
    pub fn of(&self, outcome: O) -> u64 {
        self.outcomes.0[outcome.index()]
    }

    /// Returns the outcomes that occurred and their counts, as a line of text.
    pub fn in_words(&self) -> String {
        let some: Vec<String> = O::ALL
            .iter()
            .filter(|outcome| self.of(**outcome) > 0)
            .map(|outcome| format!("{outcome} {}", self.of(*outcome)))
            .collect();
        if some.is_empty() {
            "no records".to_owned()
        } else {
            some.join(", ")
        }
    }

    /// Checks that targets = blocked + send_failed + sent + not done, and that sent = the sum of all other
    /// outcomes.
    pub fn check(&self) -> Result<(), Failure> {
        let unsent = self.of(O::BLOCKED) + self.of(O::SEND_FAILED);
        if self.targets == unsent + self.sent + self.not_done
            && self.records() - unsent == self.sent
        {
            return Ok(());
        }
        Err(Failure::Accounting(format!(
            "the counts of this run do not add up, which is a defect of the engine: {self:?}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::records::outcome::tests::Word;

    #[test]
    fn sums_are_checked() {
        let mut tally = Tally {
            targets: 3,
            ..Tally::default()
        };
        tally.record(Word::Blocked, false);
        tally.record(Word::Answered, true);
        assert!(tally.check().is_err());
        tally.record(Word::SendFailed, false);
        assert!(tally.check().is_ok());
        tally.record(Word::Answered, false);
        assert!(tally.check().is_err());
        let json = serde_json::to_value(&tally).unwrap();
        assert_eq!(json["outcomes"]["answered"], 2);
        assert_eq!(tally.in_words(), "answered 2, blocked 1, send_failed 1");
        assert_eq!(Tally::<Word>::default().in_words(), "no records");
    }
}
