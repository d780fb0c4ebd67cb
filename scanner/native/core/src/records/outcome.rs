//! What an engine's closed list of outcomes has to offer.

use std::fmt::Display;

/// An outcome of an engine's closed list.
pub trait Outcome: Copy + Eq + Display + Send + 'static {
    /// All outcomes, in the order of definition.
    const ALL: &'static [Self];
    /// The address may not be contacted; nothing was sent.
    const BLOCKED: Self;
    /// The system refused to send; nothing was sent.
    const SEND_FAILED: Self;

    /// Returns the word in records.
    fn name(self) -> &'static str;

    /// Returns the outcome of this name.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|outcome| outcome.name() == name)
    }

    /// Returns whether something was sent to targets with this outcome.
    fn was_sent(self) -> bool {
        self != Self::BLOCKED && self != Self::SEND_FAILED
    }
}
