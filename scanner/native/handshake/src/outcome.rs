//! A connection's outcomes and stages (docs/definitions.md, 'A handshake').

use firstflight_core::outcomes;

outcomes! {
    /// How a connection ended.
    pub enum Outcome {
        Done = "done",
        HandshakeFailed = "handshake_failed",
        RetryLoop = "retry_loop",
        VersionNegotiation = "version_negotiation",
        Closed = "closed",
        Timeout = "timeout",
        Refused = "refused",
        Malformed = "malformed",
        Blocked = "blocked",
        SendFailed = "send_failed",
    }
}

/// The last milestone that a connection reached.
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
    /// Returns the word used in records.
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
