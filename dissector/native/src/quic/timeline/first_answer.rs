//! The one word for how the first flight was answered.

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
    /// The word in records.
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

/// Of what the capture does not hold enough of: a packet to open it, an answer to name it.
pub const CUT: &str = "cut by the capture";

/// Of a server whose Initials hold neither ACK nor ServerHello nor close.
const NO_ANSWER: &str = "Initials that answer nothing";

/// The first answer and what it consists of.
#[derive(Debug)]
pub struct Answer<'a> {
    pub outcome: Outcome,
    /// When the ClientHello that times refer to was sent; `None` if the capture holds none that opens.
    pub hello_ns: Option<i64>,
    pub ack: Option<&'a ObservedAck>,
    /// When an ACK for a part of the ClientHello came, and when what it refers to was sent: the ClientHello, or the last
    /// packet of it before, if the rest was sent later.
    pub partial_ack: Option<(i64, i64)>,
    pub hello: Option<ObservedHello>,
    pub handshake_ns: Option<i64>,
    pub gap_before_hello: Option<bool>,
    pub close: Option<&'a ObservedClose>,
    pub detail: Option<&'a str>,
}

/// Names the first answer of a connection: the first outcome of the definitions' table that fits.
pub fn classify(t: &Timeline) -> Answer<'_> {
    let a = &t.attempt;
    let is_answered = a.server_hello.is_some() || a.ack.is_some();
    let outcome = if a.answer_is_cut || a.hello_is_cut && is_answered {
        // What it answers, or with what, is not known.
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
        // What opened and parses, and yet is no answer, is no timeout either. An ACK for a part of the
        // ClientHello is right (RFC 9000 13.2.1): the rest of the answer is missing, as for the handshake engine.
        Outcome::Malformed
    } else {
        Outcome::Timeout
    };
    // Packets that no key opens are no fault of a server whose answer was understood.
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
    Answer {
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
