//! One QUIC connection: who speaks, which keys open its packets, what each packet adds to what is known.

mod cids;
mod directory;
mod duplicates;
mod expiry;
mod fetch;
mod flight;
mod frames;
mod gone;
mod hello;
mod log;
mod opening;
mod path;
mod protection;
mod quiet;
mod table;

pub use flight::ServerSaid;
pub use frames::Closing;
pub use hello::HelloSaid;
pub use log::PacketLog;
pub use table::{Counters, Limits, Table};

use std::borrow::Cow;
use std::net::SocketAddr;

use firstflight_wire::{
    CipherSuite, ConnectionId, Error, Frame, Frames, Packet, PacketType, Reader, Version,
    parse_packet, retry_is_intact,
};

use smallvec::SmallVec;

use crate::ip::IpLength;
use crate::keylog::Keyring;
use crate::output::quic_packet::{HeaderSeen, summary};
use crate::recovery::{Freight, Recovery};
use crate::timeline::{At, Timeline, Windows};
use crate::volume::{Carried, Volume};
use cids::Cids;
use duplicates::Duplicates;
use flight::FlightReader;
use frames::NewPacket;
use hello::HelloReader;
use log::{note, seen, unparsed};
use opening::{Bytes, InitialKeys};
use path::{Path, Paths};
use protection::Protection;
use quiet::Quiet;

/// When and how a datagram was captured.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Nanoseconds since 1970, UTC.
    pub ns: i64,
    pub frame_number: u64,
    /// UDP payload as sent.
    pub length: usize,
    pub ip_length: IpLength,
    pub ttl: u8,
}

/// A count for each side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sides {
    pub client: u32,
    pub server: u32,
}

impl Sides {
    fn add(&mut self, from_client: bool, n: u32) {
        let side = if from_client {
            &mut self.client
        } else {
            &mut self.server
        };
        *side = side.saturating_add(n);
    }
}

/// A connection: five-tuple and the client's original destination connection ID.
///
/// In the order given, because what each datagram needs stands in few cache lines at the front.
#[repr(C, align(64))]
pub struct Connection {
    pub last_ns: i64,
    quiet: Quiet,
    pub client: SocketAddr,
    pub server: SocketAddr,
    paths: Paths,
    client_cids: Cids,
    server_cids: Cids,
    /// Of the client's first packet.
    pub version: Version,
    /// The same, until another is negotiated.
    pub version_in_use: Version,
    pub odcid: ConnectionId,
    pub client_scid: ConnectionId,
    pub server_scid: Option<ConnectionId>,
    /// Those that the table does not know yet.
    new_server_cids: SmallVec<[ConnectionId; 1]>,
    /// Source connection ID of a valid Retry, which the client's next Initial goes to.
    retry_scid: Option<ConnectionId>,
    retry_followed: bool,
    /// What Initial keys come from, and those for the version in use while they are needed.
    initial_dcid: ConnectionId,
    initial_keys: Option<Box<InitialKeys>>,
    protection: Protection,
    client_numbers: [Duplicates; 3],
    server_numbers: [Duplicates; 3],
    hello_reader: HelloReader,
    pub hello: HelloSaid,
    flight_reader: FlightReader,
    pub server_said: ServerSaid,
    pub timeline: Timeline,
    pub recovery: Recovery,
    pub volume: Volume,
    /// Of the datagram that is being read.
    freight: Freight,
    /// QUIC packets.
    pub packets: Sides,
    pub datagrams: Sides,
    pub undecrypted_packets: u32,
    /// A CONNECTION_CLOSE was seen.
    pub closed: bool,
    pub closing: Option<Box<Closing>>,
}

/// Where and how a packet came.
#[derive(Clone, Copy)]
struct Place<'a> {
    arrival: &'a Arrival,
    at: At,
    from_client: bool,
    path: Path,
    keyring: &'a Keyring,
}

impl Connection {
    /// A connection begun by the client's `packet`.
    fn new((client, server): Path, packet: &Packet, ns: i64, windows: Windows) -> Self {
        Connection {
            last_ns: ns,
            quiet: Quiet::default(),
            client,
            server,
            paths: Paths::default(),
            client_cids: Cids::new(packet.scid),
            server_cids: Cids::new(packet.dcid),
            version: packet.version,
            version_in_use: packet.version,
            odcid: packet.dcid,
            client_scid: packet.scid,
            server_scid: None,
            new_server_cids: SmallVec::new(),
            retry_scid: None,
            retry_followed: false,
            initial_dcid: packet.dcid,
            initial_keys: None,
            protection: Protection::default(),
            client_numbers: Default::default(),
            server_numbers: Default::default(),
            hello_reader: HelloReader::default(),
            hello: HelloSaid::default(),
            flight_reader: FlightReader::default(),
            server_said: ServerSaid::default(),
            timeline: Timeline::new(ns, windows),
            recovery: Recovery::default(),
            volume: Volume::new(ns),
            freight: Freight::default(),
            packets: Sides::default(),
            datagrams: Sides::default(),
            undecrypted_packets: 0,
            closed: false,
            closing: None,
        }
    }

    /// Connection IDs that packets of one side may go to.
    fn cids_to(&self, from_client: bool) -> &Cids {
        if from_client {
            &self.server_cids
        } else {
            &self.client_cids
        }
    }

    /// Whether a packet of the client has been opened.
    fn has_opened(&self) -> bool {
        self.client_numbers
            .iter()
            .any(|space| space.largest().is_some())
    }

    /// Whether a long header's destination connection ID is one that this side may send to.
    fn owns(&self, from_client: bool, dcid: &[u8]) -> bool {
        self.cids_to(from_client).owns(dcid)
    }

    /// Whether a long header of the server names the connection ID that it chose in its first Initial; the client drops
    /// what does not (RFC 9000 7.2).
    fn is_from_server(&self, packet: &Packet) -> bool {
        self.server_scid.is_none_or(|known| known == packet.scid)
    }

    /// Whether a short header of `datagram` carries the receiver's connection ID.
    fn owns_short(&self, from_client: bool, datagram: &[u8]) -> bool {
        datagram
            .get(1..)
            .is_some_and(|rest| self.cids_to(from_client).owns_short(rest))
    }

    /// Length of the connection ID in a short header that begins `bytes`.
    fn short_cid_length(&self, from_client: bool, bytes: &[u8]) -> usize {
        let cids = self.cids_to(from_client);
        bytes
            .get(1..)
            .and_then(|rest| cids.of_short(rest))
            .map(|cid| cid.len())
            .or_else(|| cids.length())
            .unwrap_or(0)
    }

    /// The cipher suite that the server chose.
    pub fn cipher_suite(&self) -> Option<CipherSuite> {
        self.protection.suite
    }

    /// Whether the key logs hold what opens 1-RTT packets of both sides.
    pub fn has_keys(&self) -> bool {
        self.protection.has_one_rtt()
    }

    /// Key updates of client and server.
    pub fn key_updates(&self) -> (u64, u64) {
        self.protection.key_updates()
    }

    /// Takes a datagram. Its bytes are opened in place.
    fn datagram(
        &mut self,
        keyring: &Keyring,
        arrival: &Arrival,
        (from_client, path): (bool, Path),
        first: Option<&Packet>,
        datagram: &mut Bytes<'_>,
        mut log: PacketLog<'_>,
    ) {
        self.take_in_counts();
        self.last_ns = self.last_ns.max(arrival.ns);
        self.datagrams.add(from_client, 1);
        let at = At {
            ns: arrival.ns,
            datagram: self.datagrams.server,
        };
        let place = Place {
            arrival,
            at,
            from_client,
            path,
            keyring,
        };
        if !from_client {
            self.timeline
                .server_datagram(arrival.ns, arrival.length, arrival.ttl);
            if arrival.length == 0 {
                self.timeline.unopened(at.ns, "empty datagram");
            }
        }
        self.freight = Freight::default();
        let sealed = datagram.sealed;
        // A long header needs no length of a connection ID to be parsed by.
        let mut first = first.filter(|packet| packet.kind != PacketType::OneRtt);
        let mut start = 0;
        while start < sealed.len() {
            // Some stacks fill a datagram with zeros behind its last packet.
            if start > 0 && is_zeros(&sealed[start..]) {
                break;
            }
            let parsed = match first.take() {
                Some(first) => Ok(Cow::Borrowed(first)),
                None => {
                    let cid_length = self.short_cid_length(from_client, &sealed[start..]);
                    parse_packet(sealed, start, cid_length).map(Cow::Owned)
                }
            };
            let packet = match &parsed {
                Ok(packet) => packet.as_ref(),
                Err(error) => {
                    let cut = arrival.length > sealed.len() && *error == Error::Truncated;
                    let what = if cut {
                        "cut by the capture"
                    } else {
                        "header does not parse"
                    };
                    self.unopened(at, from_client, what);
                    note(&mut log, || unparsed(sealed.len() - start, *error));
                    break;
                }
            };
            start = packet.end;
            self.packets.add(from_client, 1);
            self.packet(packet, place, datagram, &mut log);
        }
        self.volume.packet(&Carried {
            ns: arrival.ns,
            from_client,
            ip_bytes: arrival.ip_length.bytes as u64,
            is_guessed: arrival.ip_length.is_guessed,
            is_again: self.freight.is_again(),
            has_payload: self.freight.has_payload,
            new_payload: self.freight.new_payload,
        });
        if from_client {
            self.timeline
                .client_datagram(arrival.ns, arrival.length, arrival.ttl);
        } else {
            self.timeline.server_datagram_end();
        }
        if self.closed {
            self.let_go();
        }
        self.look_whether_quiet();
    }

    /// Lets go of what is hardly needed once the connection is closed: it is held for late packets only.
    fn let_go(&mut self) {
        self.let_go_of_keys();
        self.recovery.end();
        self.hello_reader.end();
        self.flight_reader.end();
    }

    /// Lets go of keys that can be made again.
    fn let_go_of_keys(&mut self) {
        self.initial_keys = None;
        self.protection.let_go();
    }

    fn unopened(&mut self, at: At, from_client: bool, what: &'static str) {
        self.undecrypted_packets = self.undecrypted_packets.saturating_add(1);
        if !from_client {
            self.timeline.unopened(at.ns, what);
        }
    }

    fn packet(
        &mut self,
        packet: &Packet,
        place: Place<'_>,
        datagram: &mut Bytes<'_>,
        log: &mut PacketLog<'_>,
    ) {
        let (at, from_client) = (place.at, place.from_client);
        let sealed = datagram.sealed;
        match packet.kind {
            PacketType::Initial
            | PacketType::Handshake
            | PacketType::ZeroRtt
            | PacketType::OneRtt => return self.protected(packet, place, datagram, log),
            PacketType::Retry if !from_client => self.retry(packet, at, sealed),
            PacketType::VersionNegotiation if !from_client => {
                let versions: Result<Vec<Version>, Error> =
                    packet.versions(sealed).map(Iterator::collect);
                let echoed = packet.dcid == self.client_scid && packet.scid == self.odcid;
                // One that does not answer the Initial is dropped by the client (RFC 9000 6.2): as if it had not come.
                if let Some(list) = versions.ok().filter(|_| echoed) {
                    self.timeline
                        .version_negotiation(at.ns, self.version, &list);
                }
            }
            _ => self.unopened(at, from_client, "packet of another version or kind"),
        }
        note(log, || {
            seen(packet, HeaderSeen::of(packet, sealed), None, None)
        });
    }

    fn retry(&mut self, packet: &Packet, at: At, datagram: &[u8]) {
        let echoed = packet.dcid == self.client_scid && packet.version == self.version_in_use;
        // The client drops one without a token, and one that changes nothing (RFC 9000 17.2.5).
        let useless = packet.token(datagram).is_empty() || packet.scid == self.odcid;
        if !echoed || !useless && !retry_is_intact(datagram, packet, &self.odcid) {
            self.timeline
                .unopened(at.ns, "Retry with wrong integrity tag or connection ID");
        } else if !useless && self.timeline.retry(at.ns) {
            self.retry_scid = Some(packet.scid);
            self.server_cids.add(packet.scid);
        }
    }

    /// An Initial, Handshake, 0-RTT or 1-RTT packet.
    fn protected(
        &mut self,
        packet: &Packet,
        place: Place<'_>,
        datagram: &mut Bytes<'_>,
        log: &mut PacketLog<'_>,
    ) {
        let (at, from_client) = (place.at, place.from_client);
        let sealed = datagram.sealed;
        let is_initial = packet.kind == PacketType::Initial;
        if !from_client && is_initial && !(packet.token.is_empty() && self.is_from_server(packet)) {
            let why = Some("token, or another connection ID than before".into());
            return note(log, || {
                seen(packet, HeaderSeen::of(packet, sealed), None, why)
            });
        }
        // Not for this client, whatever keys open it (RFC 9000 5.2).
        if is_initial && !from_client && packet.dcid != self.client_scid {
            self.unopened(at, from_client, "Initial to another connection ID");
            return note(log, || {
                let why = Some("another connection ID".into());
                seen(packet, HeaderSeen::of(packet, sealed), None, why)
            });
        }
        if packet.kind == PacketType::Handshake {
            // Told by its type alone, so that it counts without keys as well.
            if from_client {
                self.timeline.client_handshake();
            } else if packet.dcid == self.client_scid && self.is_from_server(packet) {
                self.timeline.server_handshake(at);
            }
        }
        let header = if log.is_some() {
            HeaderSeen::of(packet, sealed)
        } else {
            HeaderSeen::default()
        };
        let opened = match self.open(place.keyring, packet, from_client, datagram, at.ns) {
            Ok(opened) => opened,
            Err(error) => {
                let cut = place.arrival.length > sealed.len();
                let what = match (is_initial, cut) {
                    (true, true) => "Initial cut by the capture",
                    (true, false) => "Initial that does not authenticate",
                    (false, _) => "packet that no key opens",
                };
                if packet.kind == PacketType::Handshake
                    && packet.dcid == self.client_scid
                    && self.is_from_server(packet)
                {
                    // A handshake that goes on is no sign of a broken server.
                    self.undecrypted_packets = self.undecrypted_packets.saturating_add(1);
                } else {
                    self.unopened(at, from_client, what);
                }
                // Without keys for it, there is nothing to be said.
                let why = is_initial.then(|| error.to_string());
                return note(log, || seen(packet, header, None, why));
            }
        };
        if is_initial && !from_client {
            if self.server_scid.is_none() {
                self.new_connection_id(false, packet.scid);
            }
            self.server_scid.get_or_insert(packet.scid);
        }
        let number = opened.packet_number;
        let space = opening::space(packet.kind);
        if self.numbers(space, from_client).seen_before(number) {
            return note(log, || {
                seen(packet, header, Some(&opened), Some("seen before".into()))
            });
        }
        // A packet counts as a whole or not at all: one broken frame makes the rest doubtful.
        let mut frames = FrameList::new();
        if let Err(error) = read_frames(opened.payload, is_initial, &mut frames) {
            if is_initial && !from_client {
                self.timeline
                    .malformed(at.ns, &format!("Initial {number} opened: {error}"));
            }
            return note(log, || {
                seen(packet, header, Some(&opened), Some(error.to_string()))
            });
        }
        note(log, || {
            seen(packet, header, Some(&opened), Some(summary(&frames)))
        });
        if packet.kind == PacketType::OneRtt && from_client {
            self.client_moves(place.path, number, &frames);
        }
        self.frames(&NewPacket {
            space,
            from_client,
            at,
            number,
            frames: &frames,
            datagram_bytes: place.arrival.length,
            // Without keys nobody can tell what arrived.
            with_bytes: !place.keyring.is_empty(),
        });
    }
}

/// The frames of a packet: rarely more than a few.
type FrameList<'a> = SmallVec<[Frame<'a>; 8]>;

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0) && Reader::new(bytes).skip_zeros() == bytes.len()
}

/// Reads the frames of a packet. An Initial must hold some, and none that it must not hold (RFC 9000 12.4); a close of the
/// application's kind is read all the same: it ends the connection whatever its type.
fn read_frames<'a>(
    payload: &'a [u8],
    is_initial: bool,
    frames: &mut FrameList<'a>,
) -> Result<(), Error> {
    for frame in Frames::new(payload) {
        frames.push(frame?);
    }
    if !is_initial {
        return Ok(());
    }
    let allowed = |frame: &Frame<'_>| {
        frame.allowed_in_initial() || matches!(frame, Frame::ApplicationClose { .. })
    };
    if frames.is_empty() {
        return Err(Error::Malformed("packet without frames"));
    }
    if !frames.iter().all(allowed) {
        return Err(Error::Malformed("frame that no Initial may hold"));
    }
    Ok(())
}
