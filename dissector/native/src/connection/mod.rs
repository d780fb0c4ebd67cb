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

use crate::output::frame_details::details;
use crate::output::quic_packet::{HeaderSeen, PacketSeen, summary};
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
    /// Of the client's first packet.
    pub version: Version,
    /// The same, until the client follows a Version Negotiation.
    version_in_use: Version,
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
            version_in_use: packet.version,
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
        }
        let mut start = 0;
        while start < datagram.len() {
            let receiver_cid = if from_client {
                self.server_scid
            } else {
                Some(self.client_scid)
            };
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
                let token_there = !packet.token(datagram).is_empty();
                let echoed =
                    packet.dcid == self.client_scid && packet.version == self.version_in_use;
                if echoed && token_there && retry_is_intact(datagram, packet, &self.odcid) {
                    if self.timeline.retry(at.ns) {
                        self.retry_scid = Some(packet.scid);
                    }
                } else {
                    self.timeline.unopened(
                        at.ns,
                        "Retry with wrong integrity tag, connection ID or without token",
                    );
                }
            }
            PacketType::VersionNegotiation if !from_client => {
                let versions: Result<Vec<Version>, Error> =
                    packet.versions(datagram).map(Iterator::collect);
                let echoed = packet.dcid == self.client_scid && packet.scid == self.odcid;
                let valid = versions.is_ok_and(|list| {
                    echoed
                        && self
                            .timeline
                            .version_negotiation(at.ns, self.version, &list)
                });
                if !valid {
                    self.timeline.unopened(
                        at.ns,
                        "Version Negotiation that does not answer the Initial",
                    );
                }
            }
            PacketType::Handshake if !from_client && packet.dcid == self.client_scid => {
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
        note(log, || {
            seen(packet, HeaderSeen::of(packet, datagram), None, None)
        });
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
        // Not for this client, whatever keys open it (RFC 9000 5.2).
        if !from_client && packet.dcid != self.client_scid {
            self.unopened(at, from_client, "Initial to another connection ID");
            return note(log, || {
                let why = Some("another connection ID".into());
                seen(packet, HeaderSeen::of(packet, datagram), None, why)
            });
        }
        let header = log
            .is_some()
            .then(|| HeaderSeen::of(packet, datagram))
            .unwrap_or_default();
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
                return note(log, || seen(packet, header, None, Some(error.to_string())));
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
                seen(packet, header, Some(&opened), Some("seen before".into()))
            });
        }
        // A packet counts as a whole or not at all: one broken frame makes the rest doubtful.
        let frames: Vec<Frame<'_>> = match Frames::new(opened.payload).collect() {
            Ok(frames) => frames,
            Err(error) => {
                if !from_client {
                    self.timeline
                        .malformed(at.ns, &format!("Initial {number} opened: {error}"));
                }
                return note(log, || {
                    seen(packet, header, Some(&opened), Some(error.to_string()))
                });
            }
        };
        note(log, || {
            seen(packet, header, Some(&opened), Some(summary(&frames)))
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
        // The client goes on with a version that the server offered (RFC 9000 6.2).
        let follows_offer = from_client
            && packet.version != self.version_in_use
            && self.timeline.offers(packet.version);
        let secret = if follows_retry || follows_offer {
            InitialSecret::new(packet.version, &packet.dcid)
        } else {
            self.secret
        };
        // Keys alone do not make it ours: whoever saw the client's Initial has them.
        let to_us = from_client || packet.dcid == self.client_scid;
        let secret = secret
            .filter(|_| to_us && (follows_offer || packet.version == self.version_in_use))
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
        if follows_offer {
            self.version_in_use = packet.version;
            self.secret = Some(secret);
            self.timeline.follow_offer();
        }
        // Of use when the server's direction is not in the capture.
        if from_client && packet.dcid != self.odcid && Some(packet.dcid) != self.retry_scid {
            self.server_scid.get_or_insert(packet.dcid);
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

fn note(log: &mut PacketLog<'_>, packet: impl FnOnce() -> PacketSeen) {
    if let Some(log) = log {
        log.push(packet());
    }
}

fn seen(
    packet: &Packet,
    header: HeaderSeen,
    opened: Option<&Opened<'_>>,
    frames: Option<String>,
) -> PacketSeen {
    let long = packet.kind != PacketType::OneRtt;
    let header = match opened {
        Some(opened) => HeaderSeen {
            first_byte: Some(opened.first_byte),
            packet_number_length: u8::try_from(opened.pn_len).ok(),
            ..header
        },
        None => header,
    };
    PacketSeen {
        kind: packet.kind.name(),
        version: long.then(|| packet.version.to_string()),
        dcid: Some(packet.dcid),
        scid: long.then_some(packet.scid),
        packet_number: opened.map(|opened| opened.packet_number),
        frames,
        opened: opened.is_some(),
        size: packet.size(),
        header,
        frame_details: opened.and_then(|opened| details(opened.payload)),
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
        header: HeaderSeen::default(),
        frame_details: None,
    }
}
