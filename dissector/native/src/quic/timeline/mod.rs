//! The times for a connection's events, and the answer to its first flight (docs/definitions.md, 'A probe of the first
//! answer' and 'From a capture').
//!
//! This code implements the definitions independently of the prober's classification. The two results are compared.

mod attempt;
mod client_hello;
mod exchange;
mod first_answer;
mod flights;
mod packed;
mod pieces;
mod server_hello;
#[cfg(test)]
mod tests;

pub use attempt::{Attempt, ObservedAck, ObservedClose, ObservedHello};
pub use client_hello::{Coverage, HelloSent};
pub use exchange::{CaptureSide, Exchange};
pub use first_answer::{CUT, ClassifiedAnswer, Outcome, classify};
pub use flights::Flights;

use firstflight_wire::{Frame, Version};

use crate::quic::recovery::Space;
use server_hello::{Finder, Found};

/// Bits in a stream ID that identify the initiator and directions; 0: opened by the client, bidirectional (RFC 9000
/// 2.1).
const STREAM_KIND: u64 = 3;

/// How long answers count, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// From the ClientHello.
    pub answer_ns: i64,
    /// From the ServerHello.
    pub settle_ns: i64,
}

/// Time and datagram of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Nanoseconds since 1970, by the capture's clock.
    pub ns: i64,
    /// Ordinal of the server's datagram: events with the same one arrived together.
    pub datagram: u32,
}

/// An opened Initial of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerInitial<'a> {
    pub at: At,
    pub packet_number: u64,
    pub frames: &'a [Frame<'a>],
    /// UDP payload of the datagram with this Initial.
    pub datagram_bytes: usize,
}

/// Events of the server that only decryption with keys shows, and counts of packets with frames that were not
/// understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protected {
    /// As `initial_ack_delay_raw`, of Handshake packets.
    pub handshake_ack_delay_raw: Option<u64>,
    /// First HANDSHAKE_DONE and first STREAM frame, and first one on a stream that the client opened for both
    /// directions.
    pub handshake_done_ns: Option<i64>,
    pub first_stream_ns: Option<i64>,
    pub first_request_stream_ns: Option<i64>,
    /// Packets of both sides with a frame of an unknown type, or a broken one.
    pub not_understood: u32,
    /// The server sent such a packet in this space. A later first event may not be the real first one.
    pub handshake_is_hidden: bool,
    pub application_is_hidden: bool,
    /// Such a packet of the client beyond its Initials.
    pub client_is_hidden: bool,
}

impl Protected {
    fn is_hidden(&self, space: Space) -> bool {
        match space {
            Space::Application => self.application_is_hidden,
            _ => self.handshake_is_hidden,
        }
    }
}

/// A connection's known times. `*_ns` are absolute; `None` = not seen.
#[derive(Debug)]
pub struct Timeline {
    windows: Windows,
    /// First packet of the connection.
    pub start_ns: i64,
    /// The current ClientHello and its answer. Starts afresh after a Retry or a HelloRetryRequest.
    pub attempt: Attempt,
    /// First ACK frame of the server in an Initial, whatever it acknowledges.
    pub first_ack_ns: Option<i64>,
    pub server_hello_ns: Option<i64>,
    /// First Handshake packet of the server.
    pub first_handshake_ns: Option<i64>,
    pub retry_ns: Option<i64>,
    /// The client followed a Retry that is not in the capture.
    pub retry_missed: bool,
    pub hello_retry: bool,
    /// Versions in a valid Version Negotiation packet, joined by commas.
    pub version_list: Option<Box<str>>,
    pub refused: bool,
    /// Type and code of the first ICMP error that quotes the connection's tuple.
    pub icmp: Option<(u8, u8)>,
    pub initial_ack_delay_raw: Option<u64>,
    /// Boxed, because it is empty without keys.
    protected: Option<Box<Protected>>,
    pub exchange: Exchange,
    pub flights: Flights,
    /// The capture cut a datagram of the server. A later first event may not be the real first one.
    is_cut: bool,
    /// Packets of the client that carried a ClientHello's first byte.
    pub client_hello_copies: u16,
    /// TTL or hop limit of the server's first datagram.
    pub ttl: Option<u8>,
    finder: Finder,
}

impl Timeline {
    /// Creates a connection's timeline with the first packet at `start_ns`.
    pub fn new(start_ns: i64, windows: Windows) -> Timeline {
        Timeline {
            windows,
            start_ns,
            attempt: Attempt::new(0, start_ns),
            first_ack_ns: None,
            server_hello_ns: None,
            first_handshake_ns: None,
            retry_ns: None,
            retry_missed: false,
            hello_retry: false,
            version_list: None,
            refused: false,
            icmp: None,
            initial_ack_delay_raw: None,
            protected: None,
            exchange: Exchange::default(),
            flights: Flights::default(),
            is_cut: false,
            client_hello_copies: 0,
            ttl: None,
            finder: Finder::new(),
        }
    }

    /// The client follows a Retry: times count from the Initial with the token, and the server starts again.
    pub fn follow_retry(&mut self, ns: i64) {
        self.attempt = Attempt::new(0, ns);
        self.finder = Finder::new();
    }

    /// Whether the accepted Version Negotiation packet lists `version`.
    pub fn offers(&self, version: Version) -> bool {
        let name = version.to_string();
        self.version_list
            .as_ref()
            .is_some_and(|list| list.split(',').any(|offered| offered == name))
    }

    /// The client continues with an offered version. This settles the answer to its first flight.
    pub fn follow_offer(&mut self) {
        self.attempt.ended = true;
    }

    /// The client sent `bytes` of ClientHello at `offset` in the CRYPTO stream. `hello_end` is the offset of the
    /// message's end if the header has been seen.
    pub fn client_hello(
        &mut self,
        ns: i64,
        packet_number: u64,
        offset: u64,
        bytes: usize,
        hello_end: Option<u64>,
    ) {
        self.attempt
            .hello
            .sent(packet_number, ns, offset, bytes, hello_end);
        if bytes > 0 && offset == self.attempt.hello.from {
            self.client_hello_copies = self.client_hello_copies.saturating_add(1);
        }
    }

    /// The client answered a HelloRetryRequest with a second ClientHello at `offset` in the CRYPTO stream.
    pub fn second_hello(&mut self, ns: i64, offset: u64) {
        self.attempt = self.attempt.after(offset, ns);
    }

    /// Whether it matters to [`Timeline::datagram`] that the next datagram was captured before.
    pub fn counts_datagrams(&self) -> bool {
        self.attempt.counts_datagrams()
    }

    /// A datagram of either side arrived. Call this before the other methods for the datagram. `is_repeat`: an
    /// identical datagram was captured before.
    pub fn datagram(&mut self, is_repeat: bool) {
        self.attempt.datagram(is_repeat);
    }

    /// A datagram of the client, after the packets.
    pub fn client_datagram(&mut self, ns: i64, bytes: usize, ttl: u8) {
        self.attempt.client_datagram(bytes);
        self.exchange
            .client_datagram(ns, bytes, ttl, self.server_hello_ns);
    }

    /// A datagram of the server, before the packets.
    pub fn server_datagram(&mut self, ns: i64, bytes: usize, ttl: u8) {
        self.attempt.server_datagram(bytes);
        self.exchange.server_datagram(ns, bytes, ttl);
        self.ttl.get_or_insert(ttl);
    }

    /// An Initial of the client opened, and all frames parse.
    pub fn client_initial(&mut self, ns: i64, frames: &[Frame<'_>]) {
        let awaits_hello = self.first_ack_ns.is_some() && self.server_hello_ns.is_none();
        self.flights
            .client_initial(ns, frames, self.ttl.is_some(), awaits_hello);
    }

    /// The client's datagram `ordinal` has a Handshake packet. Only the packet's type is known.
    pub fn client_handshake(&mut self, ordinal: u32) {
        self.exchange.validated();
        self.flights.client_handshake(ordinal);
    }

    /// A Handshake or 1-RTT packet of the server opened, and all frames parse.
    pub fn server_protected(&mut self, space: Space, ns: i64, frames: &[Frame<'_>]) {
        if self.is_cut {
            return;
        }
        let seen = self.protected.get_or_insert_default();
        if seen.is_hidden(space) {
            return;
        }
        for frame in frames {
            match frame {
                Frame::Ack(ack) if space == Space::Handshake => {
                    seen.handshake_ack_delay_raw.get_or_insert(ack.delay);
                }
                Frame::HandshakeDone => {
                    seen.handshake_done_ns.get_or_insert(ns);
                }
                Frame::Stream { id, .. } => {
                    seen.first_stream_ns.get_or_insert(ns);
                    if id & STREAM_KIND == 0 {
                        seen.first_request_stream_ns.get_or_insert(ns);
                    }
                }
                _ => {}
            }
        }
    }

    /// A packet from either side was decrypted, but some frames were not understood.
    pub fn not_understood(&mut self) {
        let seen = self.protected.get_or_insert_default();
        seen.not_understood = seen.not_understood.saturating_add(1);
    }

    /// As `not_understood`, for a packet other than an Initial: the frames after the faulty one stay hidden.
    pub fn frames_hidden(&mut self, space: Space, from_client: bool) {
        let seen = self.protected.get_or_insert_default();
        match space {
            _ if from_client => seen.client_is_hidden = true,
            Space::Application => seen.application_is_hidden = true,
            _ => seen.handshake_is_hidden = true,
        }
    }

    /// The facts from the server's packets after its Initials.
    pub fn protected(&self) -> Protected {
        self.protected.as_deref().copied().unwrap_or_default()
    }

    /// Whether a packet that arrives at `ns` can still belong to the first answer.
    fn counts(&self, ns: i64) -> bool {
        self.attempt.is_open(ns, &self.windows)
    }

    /// An Initial of the server opened, and all frames parse.
    pub fn server_initial(&mut self, initial: &ServerInitial<'_>) {
        let at = initial.at;
        let counts = self.counts(at.ns);
        if counts {
            self.attempt.note_number(initial.packet_number);
        }
        for frame in initial.frames {
            match frame {
                Frame::Ack(ack) => {
                    if !self.is_cut {
                        self.first_ack_ns.get_or_insert(at.ns);
                        self.initial_ack_delay_raw.get_or_insert(ack.delay);
                    }
                    if counts {
                        self.attempt.acknowledged(ack, initial);
                    }
                }
                Frame::Crypto { offset, data } => {
                    self.server_crypto(*offset, data, initial, counts)
                }
                Frame::ConnectionClose { code, reason, .. }
                | Frame::ApplicationClose { code, reason }
                    if counts =>
                {
                    self.attempt.closed(*code, reason)
                }
                _ => {}
            }
        }
    }

    fn server_crypto(
        &mut self,
        offset: u64,
        data: &[u8],
        initial: &ServerInitial<'_>,
        counts: bool,
    ) {
        match self.finder.crypto(offset, data) {
            Found::Nothing => {}
            Found::FirstByte if self.is_cut => {}
            Found::FirstByte => {
                self.server_hello_ns = Some(initial.at.ns);
                if counts {
                    self.attempt.server_hello(initial.at, initial.packet_number);
                }
            }
            // The message that looked like a ServerHello from its first byte is a HelloRetryRequest.
            Found::HelloRetry => {
                self.hello_retry = true;
                self.server_hello_ns = None;
                self.attempt.no_server_hello();
            }
            Found::Other => {
                self.server_hello_ns = None;
                self.attempt.no_server_hello();
                self.malformed(
                    initial.at.ns,
                    "first message of the server is no ServerHello",
                );
            }
        }
    }

    /// A Handshake packet of the server. Only the packet's type is known.
    pub fn server_handshake(&mut self, at: At) {
        if !self.is_cut {
            self.first_handshake_ns.get_or_insert(at.ns);
        }
        if self.counts(at.ns) {
            self.attempt.handshake(at);
            self.undecrypted(at.ns, "Handshake packet before any ServerHello");
        }
    }

    /// Whether datagrams of Handshake, 0-RTT and 1-RTT packets that do not open change nothing any more.
    pub fn is_over(&self) -> bool {
        self.attempt.is_over()
            && self.exchange.is_over()
            && (self.first_handshake_ns.is_some() || self.is_cut)
            && self.ttl.is_some()
    }

    /// The capture cut the server's current datagram. `begins_long`: its first packet has a long header, so the missing
    /// part may belong to the first answer.
    pub fn server_cut(&mut self, at: At, begins_long: bool) {
        self.is_cut = true;
        if begins_long && self.counts(at.ns) {
            self.attempt.answer_cut(at);
        }
    }

    /// The capture cut a datagram of the client that starts with a long header. It may hold a ClientHello.
    pub fn client_cut(&mut self, at: At) {
        self.exchange.client_cut();
        if self.counts(at.ns) {
            self.attempt.hello_cut();
        }
    }

    /// Whether a datagram of the server was cut.
    pub fn server_is_cut(&self) -> bool {
        self.is_cut
    }

    /// The end of a datagram of the server.
    pub fn server_datagram_end(&mut self) {
        self.attempt.end_if_complete();
    }

    /// A packet of the server opened, but the frames do not parse. `what` describes the fault.
    pub fn malformed(&mut self, ns: i64, what: &str) {
        if self.counts(ns) {
            self.attempt.malformed.get_or_insert_with(|| what.into());
        }
    }

    /// Data from the server could not be decrypted or parsed.
    pub fn undecrypted(&mut self, ns: i64, what: &'static str) {
        if self.counts(ns) {
            self.attempt.undecrypted.get_or_insert(what);
        }
    }

    /// A Retry with the right tag and a token. Returns whether it is to be followed: the first one, before
    /// anything else opened.
    pub fn retry(&mut self, ns: i64) -> bool {
        let valid = self.retry_ns.is_none() && self.attempt.opened == 0 && self.counts(ns);
        if valid {
            self.retry_ns = Some(ns);
        }
        valid
    }

    /// A Version Negotiation packet that echoes both connection IDs; `used` is the version of the connection.
    pub fn version_negotiation(&mut self, ns: i64, used: Version, versions: &[Version]) {
        let nothing_before = self.attempt.opened == 0 && self.retry_ns.is_none();
        let says_what = !versions.is_empty() && !versions.contains(&used);
        if nothing_before && says_what && self.counts(ns) {
            let list: Vec<String> = versions.iter().map(Version::to_string).collect();
            self.version_list
                .get_or_insert_with(|| list.join(",").into());
        }
    }

    /// An ICMP error that quotes the connection's tuple.
    pub fn icmp_error(&mut self, ns: i64, kind: u8, code: u8, port_unreachable: bool) {
        if self.counts(ns) {
            self.icmp.get_or_insert((kind, code));
            if port_unreachable {
                self.icmp = Some((kind, code));
                self.refused = true;
                self.attempt.ended = true;
            }
        }
    }
}
