//! One QUIC connection: its ends, the keys that decrypt its packets, what each packet adds to its state.

mod cids;
mod count_only;
mod datagram;
mod decrypt;
mod directory;
mod duplicates;
mod flight;
mod frames;
mod greased;
mod hello;
mod numbers;
mod path;
mod prefetch;
mod protection;
mod scratch;
mod table;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod trimmed;

pub use flight::ServerFields;
pub use frames::Closing;
pub use hello::HelloFields;
pub use table::{Counters, HeldDatagram, Limits, Table};

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
use flight::{NOTHING, ServerFlight};
use hello::HelloReader;
use numbers::Numbers;
use path::{Path, Paths};
use protection::Protection;

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

impl Arrival {
    /// Whether the capture holds no more of the datagram than `captured`, and less than was sent.
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
    /// How many came of one side since `before`.
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
/// In the order given, because what each datagram needs stands in few cache lines at the front. Not aligned to
/// them: the allocator would add 63 bytes, and does align blocks of this size.
#[repr(C)]
pub struct Connection {
    pub last_ns: i64,
    count_only: CountOnly,
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
    new_server_cids: Option<Box<SmallVec<[ConnectionId; 1]>>>,
    /// Source connection ID of a valid Retry, which the client's next Initial goes to.
    retry_scid: Option<ConnectionId>,
    retry_followed: bool,
    /// What Initial keys come from, and those for the version in use while they are needed.
    initial_dcid: ConnectionId,
    initial_keys: Option<Box<InitialKeys>>,
    protection: Protection,
    numbers: Numbers,
    hello_reader: HelloReader,
    pub hello: HelloFields,
    /// Boxed, as is what else only keys show: most connections of a capture without them have none.
    flight: Option<Box<ServerFlight>>,
    pub timeline: Timeline,
    pub recovery: Recovery,
    pub volume: Volume,
    /// Of the datagram that is being read.
    payload: PayloadSummary,
    /// QUIC packets.
    pub packets: Sides,
    pub datagrams: Sides,
    pub undecrypted_packets: u32,
    /// The capture cut some datagram of it.
    pub is_cut: bool,
    /// Some packet of it held a CONNECTION_CLOSE.
    pub closed: bool,
    /// That was in a datagram before: a flight of the server that begins now is not read.
    is_released: bool,
    pub closing: Option<Box<Closing>>,
    /// If they are followed.
    pub acks: Option<Box<Acks>>,
}

impl Connection {
    /// A connection begun by the client's `packet`.
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

    /// Its client had sent something at `ns`, before the Initial that began it came.
    fn begins_at(&mut self, ns: i64) {
        self.timeline.start_ns = self.timeline.start_ns.min(ns);
        self.volume.start_ns = self.volume.start_ns.min(ns);
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
    fn has_decrypted(&self) -> bool {
        Space::ALL
            .into_iter()
            .any(|space| self.numbers.largest(space, true).is_some())
    }

    /// Whether a long header's destination connection ID is one that this side may send to.
    fn owns(&self, from_client: bool, dcid: &[u8]) -> bool {
        self.cids_to(from_client).owns(dcid)
    }

    /// Whether a long header of the server names the connection ID that it chose in its first Initial; the
    /// client drops what does not (RFC 9000 7.2).
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

    /// What the server sent under Handshake keys.
    pub fn server_fields(&self) -> &ServerFields {
        let flight = self.flight.as_deref();
        flight.map_or(&NOTHING, |flight| &flight.fields)
    }

    /// The cipher suite that the server chose.
    pub fn cipher_suite(&self) -> Option<CipherSuite> {
        self.protection.suite
    }

    /// Whether the key logs hold what opens 1-RTT packets of both sides.
    pub fn has_keys(&self) -> bool {
        self.protection.has_one_rtt()
    }

    /// Whether all that was sent once there were 1-RTT keys can be known: there are keys, the capture cut nothing,
    /// and every frame was understood.
    pub fn is_open(&self) -> bool {
        self.has_keys() && !self.is_cut && !self.misses_frames(true) && !self.misses_frames(false)
    }

    /// Whether some packet of that side, beyond its Initials, holds frames that were not understood.
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

    /// Releases what is hardly needed once the connection is closed: it is kept for late packets only.
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
