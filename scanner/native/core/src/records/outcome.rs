//! What an engine's closed list of outcomes has to offer.

use std::fmt::{Debug, Display};

/// An outcome of an engine's closed list.
pub trait Outcome: Copy + Eq + Debug + Display + Send + 'static {
    /// All outcomes, in the order of definition.
    const ALL: &'static [Self];
    /// The address may not be contacted; nothing was sent.
    const BLOCKED: Self;
    /// The system refused to send; nothing was sent.
    const SEND_FAILED: Self;

    /// Returns the word in records.
    fn name(self) -> &'static str;

    /// Returns the position in [`Self::ALL`].
    fn index(self) -> usize;

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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The shortest list of outcomes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Word {
        Answered,
        Blocked,
        SendFailed,
    }

    impl Outcome for Word {
        const ALL: &'static [Word] = &[Word::Answered, Word::Blocked, Word::SendFailed];
        const BLOCKED: Word = Word::Blocked;
        const SEND_FAILED: Word = Word::SendFailed;

        fn name(self) -> &'static str {
            match self {
                Word::Answered => "answered",
                Word::Blocked => "blocked",
                Word::SendFailed => "send_failed",
            }
        }

        fn index(self) -> usize {
            self as usize
        }
    }

    impl Display for Word {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.name())
        }
    }

    #[test]
    fn names_lead_back_to_outcomes() {
        for word in Word::ALL {
            assert_eq!(Word::from_name(word.name()), Some(*word));
            assert_eq!(Word::ALL[word.index()], *word);
        }
        assert_eq!(Word::from_name("lost"), None);
        assert!(Word::Answered.was_sent() && !Word::Blocked.was_sent());
    }
}
