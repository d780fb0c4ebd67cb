//! One QUIC connection from a client: the handshake, one request, and a close. The caller passes in the time and the
//! received datagrams. The connection returns datagrams to send and observations. It has no socket and no clock.
//!
//! `receive` processes received datagrams, `transmit` writes datagrams, and `timers` computes deadlines. All three use
//! the packet number spaces (`space`, `ranges`, `keys`), the TLS messages and the HTTP/3 streams.

mod again;
mod keys;
mod messages;
pub mod observed;
mod parameters;
mod peer_ids;
mod ranges;
mod receive;
mod recovery;
mod space;
mod streams;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
pub mod versions;

use std::net::IpAddr;
use std::sync::Arc;

use firstflight_core::clock::{Mono, Stamp};
use firstflight_wire::{ConnectionId, Version};
use rustls::quic::{self, ClientConnection};

use crate::outcome::Outcome;
use crate::tls::{Note, Tls};
pub use again::{Again, Memory};
use keys::{EarlyKeys, SpaceKeys};
pub use messages::CertificateMessage;
use messages::Messages;
use observed::Observed;
use peer_ids::PeerIds;
pub use receive::Times;
use recovery::Recovery;
use space::{Level, Space};
use streams::{Http, Streams};
pub use transmit::Datagram;
use versions::{Versions, initial_keys, of_tls};

/// Codes of CONNECTION_CLOSE (RFC 9000 20.1, RFC 9368 5, RFC 9114 8.1).
const NO_ERROR: u64 = 0;
const PROTOCOL_VIOLATION: u64 = 0x0a;
const VERSION_NEGOTIATION_ERROR: u64 = 0x11;
const CRYPTO_ERROR: u64 = 0x100;
const H3_NO_ERROR: u64 = 0x100;

/// Settings that all connections in a run share.
pub struct Context {
    pub tls: Tls,
    /// Versions offered. The first one is the version of the first flight.
    pub versions: Vec<Version>,
    /// Content of our control stream: its type and SETTINGS.
    pub control: Arc<[u8]>,
    /// Reason phrase of closes.
    pub contact: Vec<u8>,
    /// Longest duration of a connection, from its first Initial.
    pub timeout: Mono,
}

/// A packet that arrived before the keys that decrypt it.
struct Held {
    at: Stamp,
    came: Mono,
    bytes: Vec<u8>,
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Closing {
    code: u64,
    by_application: bool,
}

/// One connection.
pub struct Connection {
    context: Arc<Context>,
    pub observed: Observed,
    pub client_cid: [u8; 8],
    /// The ClientHello names the server.
    pub names_server: bool,
    versions: Versions,
    /// Destination connection IDs: of the first Initial, and of packets before the server chooses its connection ID.
    original: ConnectionId,
    dcid: ConnectionId,
    retry_cid: Option<ConnectionId>,
    /// Source connection ID of the server's first authenticated packet.
    pub server_cid: Option<ConnectionId>,
    peer_ids: PeerIds,
    /// PATH_CHALLENGE frames to answer, and the number of frames that were accepted.
    challenges: Vec<[u8; 8]>,
    challenged: u8,
    token: Box<[u8]>,
    /// State for a second connection, if one may follow.
    memory: Option<Memory>,
    /// Result of the ticket, the token and the 0-RTT data that a second connection offers.
    pub again: Again,
    /// Keys of 0-RTT packets while they may be sent, and whether a 0-RTT packet was sent.
    early: Option<EarlyKeys>,
    early_sent: bool,
    tls: Box<ClientConnection>,
    pub note: Note,
    messages: Messages,
    /// The highest level that has keys.
    level: Level,
    spaces: [Space; 3],
    streams: Streams,
    recovery: Recovery,
    /// A PING is to be sent at this level.
    ping: Option<Level>,
    held: Vec<Held>,
    /// Transmit stamps of datagrams, with the number of the datagram.
    stamps: Vec<(u16, Stamp)>,
    /// Number of the datagram that times are relative to: the first one, or the first one after a Retry or a Version
    /// Negotiation packet.
    reference: u16,
    /// Whether a datagram was sent after the first ClientHello. All datagrams of the ClientHello are one flight.
    replied: bool,
    /// Number of retransmissions before the datagram `reference`.
    repeated: u16,
    /// Number of bytes of the first ClientHello that were sent at least once.
    hello_sent: usize,
    /// Largest UDP payload.
    size: usize,
    deadline: Mono,
    /// When a connection that has its response is closed.
    settled: Option<Mono>,
    /// Start of the next probe timeout if no packet is in flight.
    touched: Mono,
    /// Arrival of the server's last authenticated packet.
    heard: Mono,
    /// Whether the connection timed out after a silence longer than the idle timeout.
    idle: bool,
    closing: Option<Closing>,
}

impl Connection {
    /// Creates a connection from `client_cid` to the random `destination`. It sends `request` (a stream's bytes)
    /// to `domain` at `ip`. `size` is the UDP payload of Initials. Fails with the reason if no ClientHello can be made.
    pub fn new(
        context: Arc<Context>,
        (domain, ip): (&str, IpAddr),
        (client_cid, destination): ([u8; 8], [u8; 8]),
        request: Box<[u8]>,
        size: u16,
        now: Mono,
    ) -> Result<Connection, String> {
        Self::begin(
            context,
            (domain, ip),
            (client_cid, destination),
            request,
            size,
            now,
            None,
        )
    }

    /// Like [`Self::new`]. With `memory` of the first connection to this target, it creates the second one.
    pub fn begin(
        context: Arc<Context>,
        (domain, ip): (&str, IpAddr),
        (client_cid, destination): ([u8; 8], [u8; 8]),
        request: Box<[u8]>,
        size: u16,
        now: Mono,
        memory: Option<Memory>,
    ) -> Result<Connection, String> {
        let keeps = (memory.is_none() && context.tls.resumes()).then(Memory::default);
        let resume = memory.as_ref().or(keeps.as_ref());
        let resume = resume.map(|memory| (memory.tickets.clone(), memory.permits_request()));
        // Tickets and tokens are valid only for the version that issued them (RFC 9369 5).
        let remembered = memory.as_ref().and_then(|memory| memory.version);
        let version = remembered.unwrap_or(context.versions[0]);
        let ours = parameters::ours(client_cid, version, &context.versions);
        let tls = context
            .tls
            .begin(of_tls(version), (domain, ip), ours, resume)?;
        let token = memory.as_ref().map(Memory::token).unwrap_or_default();
        let destination = ConnectionId::from(destination);
        let mut connection = Connection {
            observed: Observed::default(),
            client_cid,
            names_server: !domain.is_empty() && context.tls.names_server(),
            versions: Versions::new(version, &context.versions, (domain, ip)),
            original: destination,
            dcid: destination,
            retry_cid: None,
            server_cid: None,
            peer_ids: PeerIds::default(),
            challenges: Vec::new(),
            challenged: 0,
            again: Again {
                ticket: memory.is_some_and(|memory| memory.tickets.used()),
                token: !token.is_empty(),
                ..Again::default()
            },
            token,
            memory: keeps,
            early: None,
            early_sent: false,
            tls: Box::new(tls),
            note: Note::default(),
            messages: Messages::default(),
            level: Level::Initial,
            spaces: Default::default(),
            streams: Streams::new(context.control.clone(), request),
            recovery: Recovery::default(),
            ping: None,
            held: Vec::new(),
            stamps: Vec::new(),
            reference: 0,
            replied: false,
            repeated: 0,
            hello_sent: 0,
            size: usize::from(size),
            deadline: now + context.timeout,
            settled: None,
            touched: now,
            heard: now,
            idle: false,
            closing: None,
            context,
        };
        connection.spaces[0].keys = Some(initial_keys(version, &destination));
        connection.observed.ech = connection.context.tls.ech(domain);
        connection.write_tls();
        connection.begin_early();
        Ok(connection)
    }

    /// Returns whether the connection has ended. Only its close may still have to be sent.
    pub fn is_over(&self) -> bool {
        self.observed.outcome.is_some()
    }

    /// Returns the stamp that times are relative to.
    pub fn sent_at(&self) -> Option<Stamp> {
        self.stamp_of(self.reference)
    }

    /// Records the transmit stamp of datagram number `datagram`.
    pub fn stamped(&mut self, datagram: u16, stamp: Stamp) {
        self.stamps.push((datagram, stamp));
    }

    /// Returns the version in use.
    pub fn version(&self) -> Version {
        self.versions.now
    }

    /// Returns the TLS connection, which has the negotiated parameters.
    pub fn tls(&self) -> &ClientConnection {
        &self.tls
    }

    /// Returns the streams, for the response.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Returns the result of the request.
    pub fn http(&self) -> Http {
        match self.streams.http() {
            Http::NoResponse if self.idle => Http::Idle,
            http => http,
        }
    }

    /// Returns the Certificate message.
    pub fn certificate(&self) -> Option<&CertificateMessage> {
        self.messages.certificate.as_ref()
    }

    /// Ends the connection early and keeps its observations: the run stops, or its datagrams may no longer be sent.
    pub fn give_up(&mut self) {
        self.end_by_time();
    }

    /// Records an ICMP message that quotes one of our datagrams. `refused`: the message is a port unreachable.
    pub fn icmp(&mut self, kind: u8, code: u8, refused: bool) {
        self.observed.icmp.get_or_insert((kind, code));
        if refused && self.server_cid.is_none() {
            self.end(Outcome::Refused, None);
        }
    }

    fn stamp_of(&self, datagram: u16) -> Option<Stamp> {
        let found = self.stamps.iter().find(|(number, _)| *number == datagram);
        found.map(|(_, stamp)| *stamp)
    }

    fn space(&mut self, level: Level) -> &mut Space {
        &mut self.spaces[level as usize]
    }

    /// Gets handshake bytes to send and new keys from the TLS library.
    fn write_tls(&mut self) {
        loop {
            let mut bytes = Vec::new();
            let change = self.tls.write_hs(&mut bytes);
            let level = self.level;
            self.space(level).out.push(&bytes);
            let (next, keys) = match change {
                None if bytes.is_empty() => return,
                None => continue,
                Some(quic::KeyChange::Handshake { keys }) => (Level::Handshake, keys.into()),
                Some(quic::KeyChange::OneRtt { keys, next }) => {
                    (Level::Data, SpaceKeys::one_rtt(keys, next))
                }
            };
            self.space(next).keys = Some(self.of_version(next, keys));
            self.level = next;
        }
    }

    /// Ends the connection. `close` is the code of our CONNECTION_CLOSE; `None` sends no close.
    fn end(&mut self, outcome: Outcome, close: Option<Closing>) {
        if self.observed.outcome.is_none() {
            self.observed.outcome = Some(outcome);
            // The server has not answered: there is no connection to close.
            self.closing = close.filter(|_| self.server_cid.is_some());
        }
    }

    /// Ends the connection after a complete handshake.
    fn end_done(&mut self) {
        // HTTP/3 error codes are valid only if HTTP/3 was negotiated.
        let code = if self.streams.is_offered() {
            H3_NO_ERROR
        } else {
            NO_ERROR
        };
        let close = Closing {
            code,
            by_application: true,
        };
        self.end(Outcome::Done, Some(close));
    }

    /// Ends the connection because the time limit expired.
    fn end_by_time(&mut self) {
        if self.observed.handshake.is_some() {
            self.end_done();
        } else {
            self.end(Outcome::Timeout, Some(transport(NO_ERROR)));
        }
    }

    /// Ends the connection because the server violated the protocol.
    fn end_malformed(&mut self, why: impl FnOnce() -> String) {
        self.end_wrong(PROTOCOL_VIOLATION, why);
    }

    /// Like [`Self::end_malformed`], with another error code.
    fn end_wrong(&mut self, code: u64, why: impl FnOnce() -> String) {
        self.observed.note(why);
        self.end(Outcome::Malformed, Some(transport(code)));
    }
}

/// Returns a close of the transport with this code.
fn transport(code: u64) -> Closing {
    Closing {
        code,
        by_application: false,
    }
}
