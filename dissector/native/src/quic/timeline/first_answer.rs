//! The outcome of the first answer.

use super::{ObservedAck, ObservedClose, ObservedHello, Timeline};

/// Outcomes of docs/definitions.md that a capture can show.
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
}

impl Outcome {
    /// The name in records.
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
        }
    }
}

/// Reason if the capture holds too little: no packet to decrypt the answer with, or no complete answer to classify.
pub const CUT: &str = "cut by the capture";

/// Reason if the server's Initials hold no ACK, no ServerHello and no close.
const NO_ANSWER: &str = "Initials that answer nothing";

/// The first answer and its parts.
#[derive(Debug)]
pub struct ClassifiedAnswer<'a> {
    pub outcome: Outcome,
    /// Send time of the ClientHello that times count from; `None` if the capture holds no ClientHello that decrypts.
    pub hello_ns: Option<i64>,
    pub ack: Option<&'a ObservedAck>,
    /// Arrival of an ACK for a part of the ClientHello, and the send time that it refers to: the ClientHello's, or, if
    /// the rest was sent later, its last packet's before the ACK.
    pub partial_ack: Option<(i64, i64)>,
    pub hello: Option<ObservedHello>,
    pub handshake_ns: Option<i64>,
    pub gap_before_hello: Option<bool>,
    pub close: Option<&'a ObservedClose>,
    pub detail: Option<&'a str>,
}

/// Names a connection's first answer: the first outcome of the definitions' table that fits.
pub fn classify(t: &Timeline) -> ClassifiedAnswer<'_> {
    let a = &t.attempt;
    let is_answered = a.server_hello.is_some() || a.ack.is_some();
    let outcome = if a.answer_is_cut || a.hello_is_cut && is_answered {
        // Either the answer or the packets that it acknowledges are unknown.
        Outcome::Malformed
    } else if let Some(hello) = a.server_hello {
        match a
            .ack
            .as_ref()
            .map(|ack| ack.at.datagram.cmp(&hello.at.datagram))
        {
            Some(std::cmp::Ordering::Less) => Outcome::Iack,
            Some(std::cmp::Ordering::Equal) => Outcome::Coalesced,
            Some(std::cmp::Ordering::Greater) | None => Outcome::ShFirst,
        }
    } else if a.close.is_some() {
        Outcome::Closed
    } else if a.ack.is_some() {
        Outcome::AckOnly
    } else if t.retry_ns.is_some() && a.opened == 0 && a.malformed.is_none() {
        Outcome::Retry
    } else if t.version_list.is_some() {
        Outcome::VersionNegotiation
    } else if t.refused {
        Outcome::Refused
    } else if a.malformed.is_some()
        || a.undecrypted.is_some()
        || a.opened > 0 && a.partial_ack_ns.is_none()
    {
        // Packets that parse but answer nothing are not a timeout. An ACK for a part of the ClientHello is correct (RFC
        // 9000 13.2.1): only the rest of the answer is missing. The handshake engine decides the same.
        Outcome::Malformed
    } else {
        Outcome::Timeout
    };
    // Undecryptable packets are no fault of a server if its answer was understood.
    let undecrypted = (a.answer_is_cut || a.hello_is_cut)
        .then_some(CUT)
        .or(a.undecrypted)
        .or((a.opened > 0).then_some(NO_ANSWER))
        .filter(|_| outcome == Outcome::Malformed);
    let hello_ns = a
        .ack
        .as_ref()
        .map(|ack| ack.hello_ns)
        .or_else(|| a.hello.first_ns());
    ClassifiedAnswer {
        outcome,
        hello_ns,
        ack: a.ack.as_ref(),
        partial_ack: a.partial_ack_ns.and_then(|ns| {
            let sent_ns = hello_ns.filter(|sent_ns| *sent_ns <= ns);
            Some((ns, sent_ns.or_else(|| a.hello.last_before_ns(ns))?))
        }),
        hello: a.server_hello,
        handshake_ns: a.handshake_ns,
        gap_before_hello: a.gap_before_hello,
        close: a.close.as_deref(),
        detail: a.malformed.as_deref().or(undecrypted),
    }
}

#[cfg(test)]
mod tests;
