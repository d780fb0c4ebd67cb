//! The closed list of outcomes (docs/definitions.md, 'TCP options').

use std::fmt;
use std::io::{Error, ErrorKind};

use firstflight_core::records;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    Refused,
    Timeout,
    Unreachable,
    Blocked,
    SendFailed,
}

impl Outcome {
    /// Returns the outcome of a connection that ended by this error of the system.
    pub fn of(error: &Error) -> Outcome {
        match error.kind() {
            ErrorKind::ConnectionRefused => Outcome::Refused,
            ErrorKind::TimedOut => Outcome::Timeout,
            // What ICMP messages become (icmp(7)): network, host, protocol, source route, prohibited.
            _ => Outcome::Unreachable,
        }
    }
}

impl records::Outcome for Outcome {
    const ALL: &'static [Outcome] = &[
        Outcome::Answered,
        Outcome::Refused,
        Outcome::Timeout,
        Outcome::Unreachable,
        Outcome::Blocked,
        Outcome::SendFailed,
    ];
    const BLOCKED: Outcome = Outcome::Blocked;
    const SEND_FAILED: Outcome = Outcome::SendFailed;

    fn name(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Refused => "refused",
            Outcome::Timeout => "timeout",
            Outcome::Unreachable => "unreachable",
            Outcome::Blocked => "blocked",
            Outcome::SendFailed => "send_failed",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(records::Outcome::name(*self))
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
