//! The closed list of outcomes (docs/definitions.md, 'outcome').

use std::fmt;

use firstflight_core::records;

/// How the first flight of a probe was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Iack,
    Coalesced,
    ShFirst,
    Closed,
    AckOnly,
    Retry,
    VersionNegotiation,
    Refused,
    Malformed,
    Timeout,
    SendFailed,
    Blocked,
}

impl Outcome {
    /// All of them, in the order of definition.
    pub const ALL: [Outcome; 12] = [
        Outcome::Iack,
        Outcome::Coalesced,
        Outcome::ShFirst,
        Outcome::Closed,
        Outcome::AckOnly,
        Outcome::Retry,
        Outcome::VersionNegotiation,
        Outcome::Refused,
        Outcome::Malformed,
        Outcome::Timeout,
        Outcome::SendFailed,
        Outcome::Blocked,
    ];

    /// Returns the word in records.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Iack => "iack",
            Outcome::Coalesced => "coalesced",
            Outcome::ShFirst => "sh_first",
            Outcome::Closed => "closed",
            Outcome::AckOnly => "ack_only",
            Outcome::Retry => "retry",
            Outcome::VersionNegotiation => "version_negotiation",
            Outcome::Refused => "refused",
            Outcome::Malformed => "malformed",
            Outcome::Timeout => "timeout",
            Outcome::SendFailed => "send_failed",
            Outcome::Blocked => "blocked",
        }
    }
}

impl records::Outcome for Outcome {
    const ALL: &'static [Outcome] = &Outcome::ALL;
    const BLOCKED: Outcome = Outcome::Blocked;
    const SEND_FAILED: Outcome = Outcome::SendFailed;

    fn name(self) -> &'static str {
        Outcome::name(self)
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_core::records::Outcome as _;

    #[test]
    fn words_and_places_are_those_of_the_definitions() {
        let words = [
            "iack",
            "coalesced",
            "sh_first",
            "closed",
            "ack_only",
            "retry",
            "version_negotiation",
            "refused",
            "malformed",
            "timeout",
            "send_failed",
            "blocked",
        ];
        assert_eq!(Outcome::ALL.len(), words.len());
        for (place, (outcome, word)) in Outcome::ALL.into_iter().zip(words).enumerate() {
            assert_eq!(
                (outcome.name(), outcome.to_string()),
                (word, word.to_owned())
            );
            assert_eq!(records::Outcome::name(outcome), word);
            assert_eq!(outcome.index(), place, "{word}");
            assert_eq!(Outcome::from_name(word), Some(outcome));
            let unsent = matches!(outcome, Outcome::SendFailed | Outcome::Blocked);
            assert_eq!(outcome.was_sent(), !unsent, "{word}");
        }
    }
}
