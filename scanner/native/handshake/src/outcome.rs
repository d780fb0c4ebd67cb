//! The closed lists of outcomes and stages (docs/definitions.md, 'A handshake').

use std::fmt;

use firstflight_core::records;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    HandshakeFailed,
    RetryLoop,
    VersionNegotiation,
    Closed,
    Timeout,
    Refused,
    Malformed,
    Blocked,
    SendFailed,
}

/// How far a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Sent,
    Ack,
    ServerHello,
    Certificate,
    Handshake,
    Confirmed,
    Response,
}

impl Stage {
    /// Returns the word in records.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Sent => "sent",
            Stage::Ack => "ack",
            Stage::ServerHello => "server_hello",
            Stage::Certificate => "certificate",
            Stage::Handshake => "handshake",
            Stage::Confirmed => "confirmed",
            Stage::Response => "response",
        }
    }
}

impl records::Outcome for Outcome {
    const ALL: &'static [Outcome] = &[
        Outcome::Done,
        Outcome::HandshakeFailed,
        Outcome::RetryLoop,
        Outcome::VersionNegotiation,
        Outcome::Closed,
        Outcome::Timeout,
        Outcome::Refused,
        Outcome::Malformed,
        Outcome::Blocked,
        Outcome::SendFailed,
    ];
    const BLOCKED: Outcome = Outcome::Blocked;
    const SEND_FAILED: Outcome = Outcome::SendFailed;

    fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::HandshakeFailed => "handshake_failed",
            Outcome::RetryLoop => "retry_loop",
            Outcome::VersionNegotiation => "version_negotiation",
            Outcome::Closed => "closed",
            Outcome::Timeout => "timeout",
            Outcome::Refused => "refused",
            Outcome::Malformed => "malformed",
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
            "done",
            "handshake_failed",
            "retry_loop",
            "version_negotiation",
            "closed",
            "timeout",
            "refused",
            "malformed",
            "blocked",
            "send_failed",
        ];
        assert_eq!(Outcome::ALL.len(), words.len());
        for (place, (outcome, word)) in Outcome::ALL.iter().zip(words).enumerate() {
            assert_eq!((outcome.name(), outcome.index()), (word, place));
            assert_eq!(outcome.to_string(), word);
            assert_eq!(Outcome::from_name(word), Some(*outcome));
        }
    }
}
