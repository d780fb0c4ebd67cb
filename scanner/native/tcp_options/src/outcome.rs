//! A target's outcomes (docs/definitions.md, 'TCP options').

use std::io::{Error, ErrorKind};

use firstflight_core::outcomes;

outcomes! {
    /// A target's outcome.
    pub enum Outcome {
        Answered = "answered",
        Refused = "refused",
        Timeout = "timeout",
        Unreachable = "unreachable",
        Blocked = "blocked",
        SendFailed = "send_failed",
    }
}

impl Outcome {
    /// Returns the outcome for this error on a connection.
    pub fn of(error: &Error) -> Outcome {
        match error.kind() {
            ErrorKind::ConnectionRefused => Outcome::Refused,
            ErrorKind::TimedOut => Outcome::Timeout,
            // The kernel turns ICMP messages into these errors (icmp(7)): network, host, protocol, source
            // route, prohibited.
            _ => Outcome::Unreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_core::records::Outcome as _;

    #[test]
    fn words_and_places_are_those_of_the_definitions() {
        let words = [
            "answered",
            "refused",
            "timeout",
            "unreachable",
            "blocked",
            "send_failed",
        ];
        assert_eq!(Outcome::ALL.len(), words.len());
        for (place, (outcome, word)) in Outcome::ALL.iter().zip(words).enumerate() {
            assert_eq!((outcome.name(), outcome.index()), (word, place));
            assert_eq!(outcome.to_string(), word);
        }
    }

    #[test]
    fn errors_of_the_system_are_told_apart() {
        for (kind, expected) in [
            (ErrorKind::ConnectionRefused, Outcome::Refused),
            (ErrorKind::TimedOut, Outcome::Timeout),
            (ErrorKind::HostUnreachable, Outcome::Unreachable),
            (ErrorKind::NetworkUnreachable, Outcome::Unreachable),
        ] {
            assert_eq!(Outcome::of(&Error::from(kind)), expected);
        }
    }
}
