//! Observations of a connection: milestones with the kernel's stamps, counters, and the outcome.

use firstflight_core::clock::Stamp;

use crate::outcome::{Outcome, Stage};
use crate::tls::EchOffer;

/// Which endpoint sent the TLS alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Client,
    Server,
}

/// How the version of the first ClientHello was replaced by another version (RFC 9368 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionChange {
    Compatible,
    Incompatible,
}

impl VersionChange {
    /// Returns the name used in records.
    pub fn name(self) -> &'static str {
        match self {
            VersionChange::Compatible => "compatible",
            VersionChange::Incompatible => "incompatible",
        }
    }
}

/// A server's ECH configurations, in the order sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryConfigs {
    pub ids: Vec<u32>,
    pub public_names: Vec<String>,
}

/// A milestone's arrival, and the datagram's number (from 1).
pub type Milestone = Option<(Stamp, u16)>;

/// CONNECTION_CLOSE of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    pub code: u64,
    pub by_application: bool,
    pub reason: String,
}

/// Datagrams and their UDP payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub datagrams: u16,
    pub bytes: u32,
}

impl Volume {
    /// Adds a datagram.
    pub fn add(&mut self, bytes: usize) {
        self.datagrams = self.datagrams.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes as u32);
    }
}

/// All observations about a connection.
#[derive(Debug, Default)]
pub struct Observed {
    /// First ACK that completes the acknowledgement of the ClientHello.
    pub ack: Milestone,
    /// First ACK of any part of the ClientHello, whether it covers the whole ClientHello, and the acknowledged
    /// datagrams, from 1.
    pub first_ack: Milestone,
    pub ack_covers_hello: Option<bool>,
    pub first_acked: Vec<u16>,
    /// Number of datagrams of the first ClientHello (after a Retry: of the one with the token).
    pub hello_datagrams: u8,
    /// First byte of the ServerHello, not of a HelloRetryRequest.
    pub hello: Milestone,
    /// Last byte of the Certificate message.
    pub certificate: Milestone,
    /// Our Finished is ready.
    pub handshake: Milestone,
    /// HANDSHAKE_DONE.
    pub confirmed: Milestone,
    /// SETTINGS of the server.
    pub settings: Milestone,
    /// The header section of the final response.
    pub response: Milestone,
    pub sent: Volume,
    pub received: Volume,
    /// Volume received before anything but the ClientHello was sent.
    pub first_flight: Volume,
    /// Volume sent, and received, before our first Handshake packet was sent.
    pub sent_unvalidated: Volume,
    pub received_unvalidated: Volume,
    /// UDP payload received until our Finished was ready.
    pub received_handshake: Option<u32>,
    /// First and smallest round-trip time (ns), number of samples.
    pub rtt: Option<(i64, i64, u16)>,
    /// Number of probe timeouts.
    pub retransmissions: u16,
    pub discarded: u16,
    pub retry: bool,
    pub hello_retry: bool,
    /// Versions in the Version Negotiation packet and in version_information, joined by commas.
    pub versions: Option<String>,
    pub available_versions: Option<String>,
    pub version_change: Option<VersionChange>,
    /// Number of NEW_TOKEN frames, number of NewSessionTicket messages, and whether a ticket permits 0-RTT.
    pub tokens: u16,
    pub tickets: u16,
    pub early_data: bool,
    /// The ECH extension of the ClientHello; whether the server accepted it (`None`: it was not real ECH, or the answer
    /// is unknown); and the configurations that the server sent for a retry.
    pub ech: Option<EchOffer>,
    pub ech_accepted: Option<bool>,
    pub ech_retry_configs: Option<Box<RetryConfigs>>,
    pub alert: Option<(u8, By)>,
    pub close: Option<Close>,
    pub icmp: Option<(u8, u8)>,
    pub outcome: Option<Outcome>,
    pub detail: Option<String>,
}

impl Observed {
    /// Takes a round-trip time in ns.
    pub fn round_trip(&mut self, rtt: i64) {
        self.rtt = Some(match self.rtt {
            None => (rtt, rtt, 1),
            Some((first, smallest, count)) => (first, smallest.min(rtt), count.saturating_add(1)),
        });
    }

    /// Sets the remark. Keeps an earlier remark, because the first one describes the cause.
    pub fn note(&mut self, remark: impl FnOnce() -> String) {
        self.detail.get_or_insert_with(remark);
    }

    /// Counts a packet or datagram that was ignored.
    pub fn discard(&mut self) {
        self.discarded = self.discarded.saturating_add(1);
    }

    /// Returns the last milestone.
    pub fn stage(&self) -> Stage {
        let reached = [
            (self.response, Stage::Response),
            (self.confirmed, Stage::Confirmed),
            (self.handshake, Stage::Handshake),
            (self.certificate, Stage::Certificate),
            (self.hello, Stage::ServerHello),
            (self.ack, Stage::Ack),
        ];
        let last = reached.into_iter().find(|(at, _)| at.is_some());
        last.map_or(Stage::Sent, |(_, stage)| stage)
    }

    /// Returns how the server answered the first flight, in the terms of quic_probe. Only an ACK of the whole
    /// ClientHello counts. Returns `None` if neither this ACK nor a ServerHello arrived.
    pub fn first_answer(&self) -> Option<&'static str> {
        self.answered_by(self.ack)
    }

    /// Like [`Self::first_answer`], but the first ACK of any part counts. An ACK of the first of two datagrams is then
    /// an instant ACK, although the server cannot have computed a ServerHello.
    pub fn first_answer_any_ack(&self) -> Option<&'static str> {
        self.answered_by(self.first_ack)
    }

    fn answered_by(&self, ack: Milestone) -> Option<&'static str> {
        match (ack, self.hello) {
            (Some((_, ack)), Some((_, hello))) if ack < hello => Some("iack"),
            (Some((_, ack)), Some((_, hello))) if ack == hello => Some("coalesced"),
            (_, Some(_)) => Some("sh_first"),
            (Some(_), None) => Some("ack_only"),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_answers_have_the_words_of_a_probe() {
        let at = |datagram: u16| Some((i64::from(datagram), datagram));
        for (ack, hello, expected) in [
            (at(1), at(2), Some("iack")),
            (at(1), at(1), Some("coalesced")),
            (at(2), at(1), Some("sh_first")),
            (None, at(1), Some("sh_first")),
            (at(1), None, Some("ack_only")),
            (None, None, None),
        ] {
            let observed = Observed {
                ack,
                hello,
                ..Observed::default()
            };
            assert_eq!(observed.first_answer(), expected, "{ack:?} {hello:?}");
            let of_a_part = Observed {
                first_ack: ack,
                hello,
                ..Observed::default()
            };
            assert_eq!(of_a_part.first_answer_any_ack(), expected);
        }
    }

    #[test]
    fn the_stage_is_the_last_milestone() {
        let mut observed = Observed::default();
        let at = Some((1, 1));
        type Reach = fn(&mut Observed, Milestone);
        let steps: [(Reach, Stage); 6] = [
            (|observed, at| observed.ack = at, Stage::Ack),
            (|observed, at| observed.hello = at, Stage::ServerHello),
            (|observed, at| observed.certificate = at, Stage::Certificate),
            (|observed, at| observed.handshake = at, Stage::Handshake),
            (|observed, at| observed.confirmed = at, Stage::Confirmed),
            (|observed, at| observed.response = at, Stage::Response),
        ];
        assert_eq!(observed.stage(), Stage::Sent);
        for (reach, stage) in steps {
            reach(&mut observed, at);
            assert_eq!(observed.stage(), stage);
        }
    }

    #[test]
    fn round_trips_and_remarks() {
        let mut observed = Observed::default();
        for rtt in [30, 20, 40] {
            observed.round_trip(rtt);
        }
        assert_eq!(observed.rtt, Some((30, 20, 3)));
        observed.note(|| "first".to_owned());
        observed.note(|| "second".to_owned());
        assert_eq!(observed.detail.as_deref(), Some("first"));
    }
}
