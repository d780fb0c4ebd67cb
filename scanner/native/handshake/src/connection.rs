//! One connection of a client: the handshake to its end, one request, a polite close. Pure: time and bytes
//! go in, datagrams and what was observed come out; no socket and no clock.
//!
//! `receive` takes what came, `transmit` writes what leaves, `timers` say when something falls due. All three
//! work on the packet number spaces (`space`, `ranges`, `keys`), the TLS messages and the HTTP/3 streams.

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

/// What all connections of a run share.
pub struct Context {
    pub tls: Tls,
    /// Versions offered, the one of the first flight first.
    pub versions: Vec<Version>,
    /// Our control stream: type and SETTINGS.
    pub control: Arc<[u8]>,
    /// Reason phrase of closes.
    pub contact: Vec<u8>,
    /// From the first Initial to the end.
    pub timeout: Mono,
}

/// A packet that came before its keys.
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
    /// Destination of the first Initial, of packets now.
    original: ConnectionId,
    dcid: ConnectionId,
    retry_cid: Option<ConnectionId>,
    /// From the first packet of the server that authenticated.
    pub server_cid: Option<ConnectionId>,
    peer_ids: PeerIds,
    /// PATH_CHALLENGE frames to be answered, and how many were taken.
    challenges: Vec<[u8; 8]>,
    challenged: u8,
    token: Box<[u8]>,
    /// What is kept for the next connection, if there is to be one.
    memory: Option<Memory>,
    /// What became of what was kept; of a second connection.
    pub again: Again,
    /// Keys of 0-RTT packets, while those may be sent, and whether some were.
    early: Option<EarlyKeys>,
    early_sent: bool,
    tls: Box<ClientConnection>,
    pub note: Note,
    messages: Messages,
    /// The highest level whose keys there are.
    level: Level,
    spaces: [Space; 3],
    streams: Streams,
    recovery: Recovery,
    /// A PING is to be sent at this level.
    ping: Option<Level>,
    held: Vec<Held>,
    /// Transmit stamps of datagrams, by their number.
    stamps: Vec<(u16, Stamp)>,
    /// Number of the datagram that times refer to: the first, after a Retry the next.
    reference: u16,
    /// Something has left besides the first ClientHello, whose datagrams are one flight.
    replied: bool,
    /// Retransmissions before the Initial that counts.
    repeated: u16,
    /// How much of the first ClientHello has left at least once.
    hello_sent: usize,
    /// Largest UDP payload.
    size: usize,
    deadline: Mono,
    /// When a connection with a response ends.
    settled: Option<Mono>,
    /// What the next probe time-out counts from if nothing is in flight.
    touched: Mono,
    /// When the last packet of the server came that authenticated.
    heard: Mono,
    /// Its time was over, and so was that of silence before.
    idle: bool,
    closing: Option<Closing>,
}

impl Connection {
    /// A connection from `client_cid` to the random `destination`, which asks `domain` at `ip` by `request`
    /// (bytes of a stream); `size`: UDP payload of Initials. `Err`: why no ClientHello can be made.
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

    /// The same with `memory` of the first connection to this target, if it is the second one.
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
        // Tickets and tokens are of one version (RFC 9369 5).
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

    /// Returns whether it has ended; then only its close is left to be sent.
    pub fn is_over(&self) -> bool {
        self.observed.outcome.is_some()
    }

    /// Returns the stamp that times refer to.
    pub fn sent_at(&self) -> Option<Stamp> {
        self.stamp_of(self.reference)
    }

    /// Takes the transmit stamp of datagram number `datagram`.
    pub fn stamped(&mut self, datagram: u16, stamp: Stamp) {
        self.stamps.push((datagram, stamp));
    }

    /// Returns the version in use.
    pub fn version(&self) -> Version {
        self.versions.now
    }

    /// Returns the TLS part, for what was negotiated.
    pub fn tls(&self) -> &ClientConnection {
        &self.tls
    }

    /// Returns the streams, for the response.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Returns what became of the request.
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

    /// The run stops, or nobody answers for it any more: ends the connection with what it has.
    pub fn give_up(&mut self) {
        self.end_by_time();
    }

    /// An ICMP message quotes a datagram of ours; `refused`: the server says that nobody listens.
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

    /// Takes what the TLS library wants to send, and the keys that it has.
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

    /// Ends the connection; `close`: the code of our CONNECTION_CLOSE, none without one.
    fn end(&mut self, outcome: Outcome, close: Option<Closing>) {
        if self.observed.outcome.is_none() {
            self.observed.outcome = Some(outcome);
            // Nobody answered: there is nothing to close.
            self.closing = close.filter(|_| self.server_cid.is_some());
        }
    }

    /// Ends the connection because it got as far as it does.
    fn end_done(&mut self) {
        // Codes of applications are those of HTTP/3 only where it was agreed on.
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

    /// Ends the connection because its time is over.
    fn end_by_time(&mut self) {
        if self.observed.handshake.is_some() {
            self.end_done();
        } else {
            self.end(Outcome::Timeout, Some(transport(NO_ERROR)));
        }
    }

    /// Ends the connection because the server broke a rule.
    fn end_malformed(&mut self, why: impl FnOnce() -> String) {
        self.end_wrong(PROTOCOL_VIOLATION, why);
    }

    /// The same, with the code of that rule.
    fn end_wrong(&mut self, code: u64, why: impl FnOnce() -> String) {
        self.observed.note(why);
        self.end(Outcome::Malformed, Some(transport(code)));
    }
}

/// A close by the transport.
fn transport(code: u64) -> Closing {
    Closing {
        code,
        by_application: false,
    }
}
