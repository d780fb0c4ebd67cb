//! A probe's outcomes (docs/definitions.md, 'outcome').

use firstflight_core::outcomes;

outcomes! {
    /// How a server answered a probe's first flight.
    pub enum Outcome {
        Iack = "iack",
        Coalesced = "coalesced",
        ShFirst = "sh_first",
        Closed = "closed",
        AckOnly = "ack_only",
        Retry = "retry",
        VersionNegotiation = "version_negotiation",
        Refused = "refused",
        Malformed = "malformed",
        Timeout = "timeout",
        SendFailed = "send_failed",
        Blocked = "blocked",
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
        for (place, (outcome, word)) in Outcome::ALL.iter().copied().zip(words).enumerate() {
            assert_eq!(
                (outcome.name(), outcome.to_string()),
                (word, word.to_owned())
            );
            assert_eq!(outcome.index(), place, "{word}");
            assert_eq!(Outcome::from_name(word), Some(outcome));
            let unsent = matches!(outcome, Outcome::SendFailed | Outcome::Blocked);
            assert_eq!(outcome.was_sent(), !unsent, "{word}");
        }
    }
}
