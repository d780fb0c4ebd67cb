//! One QUIC connection: who speaks, which keys open its Initials, what each packet adds to the timeline.

mod duplicates;
mod hello;
mod table;

pub use hello::HelloSaid;
pub use table::{Counters, Limits, Table};

use std::net::SocketAddr;

use firstflight_wire::{
    ConnectionId, Error, Frame, Frames, InitialSecret, Keys, OpenError, Opened, Packet, PacketType,
    Version, parse_packet, retry_is_intact,
};

use crate::output::quic_packet::{PacketSeen, summary};
use crate::timeline::{At, ServerInitial, Timeline, Windows};
use duplicates::Duplicates;
use hello::HelloReader;

/// When and how a datagram was captured.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Nanoseconds since 1970, UTC.
    pub ns: i64,
    pub frame_number: u64,
    /// UDP payload as sent.
    pub length: usize,
    pub ttl: u8,
}

/// A count for each side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sides {
    pub client: u32,
    pub server: u32,
}

impl Sides {
    fn add(&mut self, from_client: bool) {
        let side = if from_client {
            &mut self.client
        } else {
            &mut self.server
        };
        *side = side.saturating_add(1);
    }
}

/// A connection: five-tuple and the client's original destination connection ID.
pub struct Connection {
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub version: Version,
    pub odcid: ConnectionId,
    pub client_scid: ConnectionId,
    pub server_scid: Option<ConnectionId>,
    /// Source connection ID of a valid Retry, which the client's next Initial goes to.
    retry_scid: Option<ConnectionId>,
    retry_followed: bool,
    secret: Option<InitialSecret>,
    client_numbers: Duplicates,
    server_numbers: Duplicates,
    hello_reader: HelloReader,
    pub hello: HelloSaid,
    pub timeline: Timeline,
    /// QUIC packets.
    pub packets: Sides,
    pub datagrams: Sides,
    pub undecrypted_packets: u32,
    /// A CONNECTION_CLOSE was seen.
    pub closed: bool,
    pub last_ns: i64,
}

/// What each packet looked like, if somebody wants to know.
pub type PacketLog<'a> = Option<&'a mut Vec<PacketSeen>>;

impl Connection {
    /// A connection begun by the client's `packet`. `secret` opens its Initials; `None` for a version that is not known.
    fn new(
        client: SocketAddr,
        server: SocketAddr,
        packet: &Packet,
        secret: Option<InitialSecret>,
        ns: i64,
        windows: Windows,
    ) -> Self {
        Connection {
            client,
            server,
            version: packet.version,
            odcid: packet.dcid,
            client_scid: packet.scid,
            server_scid: None,
            retry_scid: None,
            retry_followed: false,
            secret,
            client_numbers: Duplicates::default(),
            server_numbers: Duplicates::default(),
            hello_reader: HelloReader::default(),
            hello: HelloSaid::default(),
            timeline: Timeline::new(ns, windows),
            packets: Sides::default(),
            datagrams: Sides::default(),
            undecrypted_packets: 0,
            closed: false,
            last_ns: ns,
        }
    }

    /// Whether a long header's destination connection ID is one that this side may send to.
    fn owns(&self, from_client: bool, dcid: &ConnectionId) -> bool {
        if from_client {
            *dcid == self.odcid || Some(*dcid) == self.retry_scid || Some(*dcid) == self.server_scid
        } else {
            *dcid == self.client_scid
        }
    }

    /// Whether a long header of the server names the connection ID that it chose in its first Initial; the client drops
    /// what does not (RFC 9000 7.2).
    fn is_from_server(&self, packet: &Packet) -> bool {
        self.server_scid.is_none_or(|known| known == packet.scid)
    }

    /// Whether a short header of `datagram` carries the receiver's connection ID.
    fn owns_short(&self, from_client: bool, datagram: &[u8]) -> bool {
        let cid = if from_client {
            self.server_scid
        } else {
            Some(self.client_scid)
        };
        cid.is_some_and(|cid| {
            datagram
                .get(1..)
                .is_some_and(|rest| rest.starts_with(cid.as_slice()))
        })
    }

    /// Takes a datagram. Its bytes are opened in place.
    fn datagram(
        &mut self,
        arrival: &Arrival,
        from_client: bool,
        datagram: &mut [u8],
        mut log: PacketLog<'_>,
    ) {
        self.last_ns = self.last_ns.max(arrival.ns);
        self.datagrams.add(from_client);
        let at = At {
            ns: arrival.ns,
            datagram: self.datagrams.server,
        };
        if !from_client {
            self.timeline.server_datagram(arrival.length, arrival.ttl);
            if arrival.length == 0 {
                self.timeline.unopened(at.ns, "empty datagram");
            }
        }
        let receiver_cid = if from_client {
            self.server_scid
        } else {
            Some(self.client_scid)
        };
        let mut start = 0;
        while start < datagram.len() {
            // Some stacks fill a datagram with zeros behind its last packet.
            if start > 0 && datagram[start..].iter().all(|&b| b == 0) {
                break;
            }
            let packet =
                match parse_packet(datagram, start, receiver_cid.map_or(0, |cid| cid.len())) {
                    Ok(packet) => packet,
                    Err(error) => {
                        let cut = arrival.length > datagram.len() && error == Error::Truncated;
                        self.unopened(
                            at,
                            from_client,
                            if cut {
                                "cut by the capture"
                            } else {
                                "header does not parse"
                            },
                        );
                        note(&mut log, || unparsed(datagram.len() - start, error));
                        break;
                    }
                };
            start = packet.end;
            self.packets.add(from_client);
            self.packet(&packet, arrival, at, from_client, datagram, &mut log);
        }
        if from_client {
            self.timeline.client_datagram(arrival.length);
        } else {
            self.timeline.server_datagram_end();
        }
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
        arrival: &Arrival,
        at: At,
        from_client: bool,
        datagram: &mut [u8],
        log: &mut PacketLog<'_>,
    ) {
        match packet.kind {
            PacketType::Initial => {
                return self.initial(packet, arrival, at, from_client, datagram, log);
            }
            PacketType::Retry if !from_client => {
                let echoed = packet.dcid == self.client_scid && packet.version == self.version;
                // The client drops one without a token, and one that changes nothing (RFC 9000 17.2.5).
                let useless = packet.token(datagram).is_empty() || packet.scid == self.odcid;
                if !echoed || !useless && !retry_is_intact(datagram, packet, &self.odcid) {
                    self.timeline
                        .unopened(at.ns, "Retry with wrong integrity tag or connection ID");
                } else if !useless && self.timeline.retry(at.ns) {
                    self.retry_scid = Some(packet.scid);
                }
            }
            PacketType::VersionNegotiation if !from_client => {
                let versions: Result<Vec<Version>, Error> =
                    packet.versions(datagram).map(Iterator::collect);
                let echoed = packet.dcid == self.client_scid && packet.scid == self.odcid;
                // One that does not answer the Initial is dropped by the client (RFC 9000 6.2): as if it had not come.
                if let Some(list) = versions.ok().filter(|_| echoed) {
                    self.timeline
                        .version_negotiation(at.ns, self.version, &list);
                }
            }
            PacketType::Handshake
                if !from_client
                    && packet.dcid == self.client_scid
                    && self.is_from_server(packet) =>
            {
                self.undecrypted_packets = self.undecrypted_packets.saturating_add(1);
                self.timeline.server_handshake(at);
            }
            PacketType::Handshake | PacketType::ZeroRtt | PacketType::OneRtt => {
                self.undecrypted_packets = self.undecrypted_packets.saturating_add(1);
                // A handshake that goes on is no sign of a broken server; a lone packet of these kinds is.
                if !from_client {
                    self.timeline.unopened(at.ns, "packet that no key opens");
                }
            }
            _ => self.unopened(at, from_client, "packet of another version or kind"),
        }
        note(log, || seen(packet, None, None, false));
    }

    fn initial(
        &mut self,
        packet: &Packet,
        arrival: &Arrival,
        at: At,
        from_client: bool,
        datagram: &mut [u8],
        log: &mut PacketLog<'_>,
    ) {
        if !(from_client || packet.token.is_empty() && self.is_from_server(packet)) {
            let why = "token, or another connection ID than before";
            return note(log, || seen(packet, None, Some(why.into()), false));
        }
        // Not for this client, whatever keys open it (RFC 9000 5.2).
        if !from_client && packet.dcid != self.client_scid {
            self.unopened(at, from_client, "Initial to another connection ID");
            return note(log, || {
                seen(packet, None, Some("another connection ID".into()), false)
            });
        }
        let opened = match self.open(packet, from_client, datagram, at.ns) {
            Ok(opened) => opened,
            Err(error) => {
                let cut = arrival.length > datagram.len();
                let what = if cut {
                    "Initial cut by the capture"
                } else {
                    "Initial that does not authenticate"
                };
                self.unopened(at, from_client, what);
                return note(log, || seen(packet, None, Some(error.to_string()), false));
            }
        };
        if !from_client {
            self.server_scid.get_or_insert(packet.scid);
        }
        let number = opened.packet_number;
        let numbers = if from_client {
            &mut self.client_numbers
        } else {
            &mut self.server_numbers
        };
        if numbers.seen_before(number) {
            return note(log, || {
                seen(packet, Some(number), Some("seen before".into()), true)
            });
        }
        // A packet counts as a whole or not at all: one broken frame makes the rest doubtful.
        let frames: Vec<Frame<'_>> = match frames_of_initial(opened.payload) {
            Ok(frames) => frames,
            Err(error) => {
                if !from_client {
                    self.timeline
                        .malformed(at.ns, &format!("Initial {number} opened: {error}"));
                }
                return note(log, || {
                    seen(packet, Some(number), Some(error.to_string()), true)
                });
            }
        };
        note(log, || {
            seen(packet, Some(number), Some(summary(&frames)), true)
        });
        self.closed |= frames
            .iter()
            .any(|frame| matches!(frame, Frame::ConnectionClose { .. }));
        if from_client {
            self.client_initial(at.ns, number, &frames);
        } else {
            let datagram_bytes = arrival.length;
            self.timeline.server_initial(&ServerInitial {
                at,
                packet_number: number,
                frames: &frames,
                datagram_bytes,
            });
        }
    }

    /// Opens an Initial. The client's first one after a Retry changes the keys of both sides (RFC 9001 5.2).
    fn open<'a>(
        &mut self,
        packet: &Packet,
        from_client: bool,
        datagram: &'a mut [u8],
        ns: i64,
    ) -> Result<Opened<'a>, OpenError> {
        let follows_retry =
            from_client && !self.retry_followed && Some(packet.dcid) == self.retry_scid;
        let secret = if follows_retry {
            InitialSecret::new(self.version, &packet.dcid)
        } else {
            self.secret
        };
        // Keys alone do not make it ours: whoever saw the client's Initial has them.
        let to_us = from_client || packet.dcid == self.client_scid;
        let secret = secret
            .filter(|_| to_us && packet.version == self.version)
            .ok_or(OpenError::Unauthentic)?;
        let (material, numbers) = if from_client {
            (secret.client(), &self.client_numbers)
        } else {
            (secret.server(), &self.server_numbers)
        };
        let opened = Keys::new(&material).open(datagram, packet, numbers.largest())?;
        if follows_retry {
            self.retry_followed = true;
            self.secret = Some(secret);
            self.server_scid = None;
            self.server_numbers = Duplicates::default();
            self.hello_reader = HelloReader::default();
            self.timeline.follow_retry(ns);
        }
        Ok(opened)
    }

    fn client_initial(&mut self, ns: i64, number: u64, frames: &[Frame<'_>]) {
        for frame in frames {
            let Frame::Crypto { offset, data } = frame else {
                continue;
            };
            self.hello_reader.crypto(*offset, data, &mut self.hello);
        }
        // All CRYPTO frames of the packet were read first, so that the message's length is known if it can be.
        for frame in frames {
            let Frame::Crypto { offset, data } = frame else {
                continue;
            };
            if let Some(second) = self
                .hello_reader
                .second_hello()
                .filter(|second| offset >= second)
                && self.timeline.hello_retry
                && self.timeline.attempt.hello.from != second
            {
                self.timeline.second_hello(ns, second);
            }
            let end = self
                .hello_reader
                .hello_end(self.timeline.attempt.hello.from);
            self.timeline
                .client_hello(ns, number, *offset, data.len(), end);
        }
    }
}

/// The frames of an Initial; an error if it holds none, or one that it must not hold (RFC 9000 12.4). A close of the
/// application's kind is read all the same: it ends the connection whatever its type.
fn frames_of_initial(payload: &[u8]) -> Result<Vec<Frame<'_>>, Error> {
    let frames: Vec<Frame<'_>> = Frames::new(payload).collect::<Result<_, _>>()?;
    let allowed = |frame: &Frame<'_>| {
        frame.allowed_in_initial() || matches!(frame, Frame::ApplicationClose { .. })
    };
    if frames.is_empty() {
        return Err(Error::Malformed("packet without frames"));
    }
    if !frames.iter().all(allowed) {
        return Err(Error::Malformed("frame that no Initial may hold"));
    }
    Ok(frames)
}

fn note(log: &mut PacketLog<'_>, packet: impl FnOnce() -> PacketSeen) {
    if let Some(log) = log {
        log.push(packet());
    }
}

fn seen(
    packet: &Packet,
    packet_number: Option<u64>,
    frames: Option<String>,
    opened: bool,
) -> PacketSeen {
    let long = packet.kind != PacketType::OneRtt;
    PacketSeen {
        kind: packet.kind.name(),
        version: long.then(|| packet.version.to_string()),
        dcid: Some(packet.dcid),
        scid: long.then_some(packet.scid),
        packet_number,
        frames,
        opened,
        size: packet.size(),
    }
}

fn unparsed(size: usize, error: Error) -> PacketSeen {
    PacketSeen {
        kind: "unparsed",
        version: None,
        dcid: None,
        scid: None,
        packet_number: None,
        frames: Some(error.to_string()),
        opened: false,
        size,
    }
}
