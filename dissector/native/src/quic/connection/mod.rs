//! A QUIC connection: its endpoints, its keys, and the state that its packets change.

mod cids;
mod count_only;
mod datagram;
mod decrypt;
mod duplicates;
mod frames;
mod greased;
mod lookup;
mod numbers;
mod path;
mod prefetch;
mod protection;
mod scratch;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod trimmed;

pub use frames::Closing;
pub use lookup::{Counters, HeldDatagram, Limits, Table};
pub use tls::{HelloFields, ServerFields};

use std::net::SocketAddr;

use firstflight_wire::{CipherSuite, ConnectionId, Packet, Version};

use smallvec::SmallVec;

use crate::flow::volume::Volume;
use crate::net::ip::IpLength;
use crate::quic::acks::Acks;
use crate::quic::recovery::{PayloadSummary, Recovery, Space};
use crate::quic::timeline::{Timeline, Windows};
use cids::Cids;
use count_only::CountOnly;
use decrypt::InitialKeys;
use numbers::Numbers;
use path::{Path, Paths};
use protection::Protection;
use tls::{HelloReader, NOTHING, ServerFlight};

/// A captured datagram's time and properties.
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

impl Arrival {
    /// Whether `captured` is shorter than the datagram was on the wire.
    fn is_cut(&self, captured: &[u8]) -> bool {
        self.length > captured.len()
    }
}

/// A count for each side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sides {
    pub client: u32,
    pub server: u32,
}

impl Sides {
    /// The increase in a side's count since `before`.
    fn since(self, before: Sides, from_client: bool) -> u32 {
        if from_client {
            self.client - before.client
        } else {
            self.server - before.server
        }
    }

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
/// The order of the fields matters: those that every datagram needs are in the first few cache lines. The struct is not
/// aligned to cache lines, because the allocator would add 63 bytes, and it aligns blocks of this size anyway.
#[repr(C)]
pub struct Connection {
    pub last_ns: i64,
    count_only: CountOnly,
    pub client: SocketAddr,
    pub server: SocketAddr,
    paths: Paths,
    client_cids: Cids,
    server_cids: Cids,
    /// Version of the client's first packet.
    pub version: Version,
    /// The version in use, which differs from the first after negotiation.
    pub version_in_use: Version,
    pub odcid: ConnectionId,
    pub client_scid: ConnectionId,
    pub server_scid: Option<ConnectionId>,
    /// Connection IDs that are not yet in the table.
    new_server_cids: Option<Box<SmallVec<[ConnectionId; 1]>>>,
    /// Source connection ID in a valid Retry. The client's next Initial uses it as destination.
    retry_scid: Option<ConnectionId>,
    retry_followed: bool,
    /// The connection ID for Initial keys, and the keys of the version in use while they are needed.
    initial_dcid: ConnectionId,
    initial_keys: Option<Box<InitialKeys>>,
    protection: Protection,
    numbers: Numbers,
    hello_reader: HelloReader,
    pub hello: HelloFields,
    /// Boxed, like all fields that only keys fill: in a capture without keys, most connections have no such data.
    flight: Option<Box<ServerFlight>>,
    pub timeline: Timeline,
    pub recovery: Recovery,
    pub volume: Volume,
    /// Payload of the current datagram.
    payload: PayloadSummary,
    /// QUIC packets.
    pub packets: Sides,
    pub datagrams: Sides,
    pub undecrypted_packets: u32,
    /// The capture cut a datagram of the connection.
    pub is_cut: bool,
    /// A packet with a CONNECTION_CLOSE was decrypted.
    pub closed: bool,
    /// The close was in an earlier datagram. A flight of the server that starts later is not read.
    is_released: bool,
    pub closing: Option<Box<Closing>>,
    /// `Some` if acknowledgements are followed.
    pub acks: Option<Box<Acks>>,
}

impl Connection {
    /// Creates a connection from the client's first `packet`.
    fn new((client, server): Path, packet: &Packet, ns: i64, windows: Windows) -> Self {
        Connection {
            last_ns: ns,
            count_only: CountOnly::default(),
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
            new_server_cids: None,
            retry_scid: None,
            retry_followed: false,
            initial_dcid: packet.dcid,
            initial_keys: None,
            protection: Protection::default(),
            numbers: Numbers::default(),
            hello_reader: HelloReader::default(),
            hello: HelloFields::default(),
            flight: None,
            timeline: Timeline::new(ns, windows),
            recovery: Recovery::default(),
            volume: Volume::new(ns),
            payload: PayloadSummary::default(),
            packets: Sides::default(),
            datagrams: Sides::default(),
            undecrypted_packets: 0,
            is_cut: false,
            closed: false,
            is_released: false,
            closing: None,
            acks: None,
        }
    }

    /// The client sent a packet at `ns`, before the Initial that created the connection was captured.
    fn begins_at(&mut self, ns: i64) {
        self.timeline.start_ns = self.timeline.start_ns.min(ns);
        self.volume.start_ns = self.volume.start_ns.min(ns);
    }

    /// Connection IDs that packets from this side may be sent to.
    fn cids_to(&self, from_client: bool) -> &Cids {
        if from_client {
            &self.server_cids
        } else {
            &self.client_cids
        }
    }

    /// Whether a packet of the client was decrypted.
    fn has_decrypted(&self) -> bool {
        Space::ALL
            .into_iter()
            .any(|space| self.numbers.largest(space, true).is_some())
    }

    /// Whether `dcid` in a long header from this side is a connection ID of the receiver.
    fn owns(&self, from_client: bool, dcid: &[u8]) -> bool {
        self.cids_to(from_client).owns(dcid)
    }

    /// Whether a long header of the server has the source connection ID of the server's first Initial. The client drops
    /// other packets (RFC 9000 7.2).
    fn is_from_server(&self, packet: &Packet) -> bool {
        self.server_scid.is_none_or(|known| known == packet.scid)
    }

    /// Whether a short header of `datagram` carries the receiver's connection ID.
    fn owns_short(&self, from_client: bool, datagram: &[u8]) -> bool {
        datagram
            .get(1..)
            .is_some_and(|rest| self.cids_to(from_client).owns_short(rest))
    }

    /// Length of the connection ID in a short header at the start of `bytes`.
    fn short_cid_length(&self, from_client: bool, bytes: &[u8]) -> usize {
        let cids = self.cids_to(from_client);
        bytes
            .get(1..)
            .and_then(|rest| cids.of_short(rest))
            .map(|cid| cid.len())
            .or_else(|| cids.length())
            .unwrap_or(0)
    }

    /// The server's fields under Handshake keys.
    pub fn server_fields(&self) -> &ServerFields {
        let flight = self.flight.as_deref();
        flight.map_or(&NOTHING, |flight| &flight.fields)
    }

    /// The cipher suite that the server chose.
    pub fn cipher_suite(&self) -> Option<CipherSuite> {
        self.protection.suite
    }

    /// Whether the key logs hold the 1-RTT secrets of both sides.
    pub fn has_keys(&self) -> bool {
        self.protection.has_one_rtt()
    }

    /// Whether all data under 1-RTT keys is known: the keys are known, the capture is not cut, and every frame was
    /// understood.
    pub fn is_open(&self) -> bool {
        self.has_keys() && !self.is_cut && !self.misses_frames(true) && !self.misses_frames(false)
    }

    /// Whether the side sent a packet, other than an Initial, with frames that were not understood.
    pub fn misses_frames(&self, of_client: bool) -> bool {
        let seen = self.timeline.protected();
        if of_client {
            seen.client_is_hidden
        } else {
            seen.handshake_is_hidden || seen.application_is_hidden
        }
    }

    /// Key updates of client and server.
    pub fn key_updates(&self) -> (u64, u64) {
        self.protection.key_updates()
    }

    /// Releases most memory of a closed connection. It is kept only for late packets.
    fn release(&mut self) {
        self.drop_keys();
        self.recovery.end();
        self.hello_reader.end();
        if let Some(flight) = &mut self.flight {
            flight.reader.end();
        }
        self.is_released = true;
    }

    /// Drops keys that can be derived again.
    fn drop_keys(&mut self) {
        self.initial_keys = None;
        self.protection.release();
    }
}
