//! Assigns datagrams to connections.

mod begin;
mod held;

use std::hint::black_box;
use std::net::SocketAddr;

use firstflight_wire::{
    KeyCache, Packet, PacketType, parse_bare_header, parse_greased_packet, parse_packet, skim,
};
use slotmap::SlotMap;

use super::directory::{Directory, Id, Tuple, Tuples};
use crate::flow::expiry::{Bounds, Expiry};
use crate::flow::tombstones::Tombstones;
use crate::net::ip::{Datagram, IcmpError};
use crate::padding::Padding;
use crate::quic::connection::scratch::{Bytes, Scratch};
use crate::quic::connection::{Arrival, Connection};
use crate::quic::keylog::Keyring;
use crate::quic::packet_log::PacketLog;
use crate::quic::recovery;
use crate::quic::timeline::Windows;
use begin::Begun;
use held::Held;
pub use held::HeldDatagram;

/// Number of hashes of removed connections, usually two per connection. They distinguish late packets from new
/// connections.
const REMEMBERED: usize = 1 << 18;

/// Settings for a table.
#[derive(Clone, Debug)]
pub struct Limits {
    pub windows: Windows,
    pub bounds: Bounds,
    /// Maximum number of live connections while some have been silent longer than a first answer may take. Silent
    /// connections are kept only for late packets.
    pub max_decided: usize,
    /// Ports to dissect; empty: all.
    pub ports: Vec<u16>,
    /// Follow acknowledgements.
    pub acks: bool,
}

/// Packets that belong to no live connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Packets of connections that were written out before.
    pub late: u64,
    /// UDP datagrams that neither belong to a connection nor start one.
    pub other_udp: u64,
}

/// The live connections.
pub struct Table {
    limits: Limits,
    /// Boxed: a table of large values would reserve space for as many again.
    connections: SlotMap<Id, Box<Connection>>,
    by_tuple: Tuples,
    by_cid: Directory,
    keyring: Keyring,
    expiry: Expiry<Id>,
    /// A removed connection's memory, for reuse.
    spare: Option<Box<Connection>>,
    tombstones: Tombstones,
    scratch: Scratch,
    held: Held,
    pub counters: Counters,
}

impl Table {
    pub fn new(limits: Limits, keyring: Keyring) -> Table {
        let decided_ns = limits
            .windows
            .answer_ns
            .saturating_add(limits.windows.settle_ns);
        let expiry = Expiry::new(limits.bounds).sparing(limits.max_decided, decided_ns);
        Table {
            limits,
            connections: SlotMap::with_key(),
            by_tuple: Tuples::default(),
            by_cid: Directory::default(),
            keyring,
            expiry,
            spare: None,
            tombstones: Tombstones::new(REMEMBERED),
            scratch: Scratch::default(),
            held: Held::default(),
            counters: Counters::default(),
        }
    }

    /// Records the decrypted Initials of each datagram ([`Table::paddings`]).
    pub fn note_paddings(&mut self) {
        self.scratch.note_paddings();
    }

    /// The decrypted Initials of the last datagram, with their padding, and the most recent key schedules.
    pub fn paddings(&mut self) -> (&[Padding], &mut KeyCache) {
        self.scratch.paddings()
    }

    /// Processes a datagram. Returns the connection and whether the client sent it.
    pub fn datagram(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        log: PacketLog<'_>,
    ) -> Option<(&Connection, bool)> {
        self.scratch.begin();
        let (src, dst) = (&datagram.src, &datagram.dst);
        let is_asked_for = |port| self.limits.ports.contains(&port);
        if !self.limits.ports.is_empty() && !is_asked_for(src.port()) && !is_asked_for(dst.port()) {
            return None;
        }
        let tuple = self.by_tuple.tuple(src, dst);
        let bytes = datagram.payload;
        // Most packets can be skimmed; other packets need the whole header.
        if let Some(skimmed) = skim(bytes, 0) {
            let address = skimmed.dcid.map_or(Address::Short(bytes), Address::Long);
            let found = self.find(tuple, src, dst, address);
            if let Found::Id(id, from_client) = found
                && log.is_none()
                && let Some(connection) = self.connections.get_mut(id)
                && connection.only_counts(arrival, from_client, bytes)
            {
                return self.connections.get(id).map(|c| (&**c, from_client));
            }
            let first = parse_packet(bytes, 0, 0).ok();
            return self.take(arrival, datagram, tuple, first.as_ref(), found, log);
        }
        let first = parse_packet(bytes, 0, 0).ok();
        // Trimmed packets and packets without the fixed bit are parsed only to find their connection.
        let other = match &first {
            Some(_) => None,
            None => {
                let bare = || parse_bare_header(bytes, 0, 0, arrival.length);
                let bare = arrival.is_cut(bytes).then(bare).flatten();
                bare.or_else(|| parse_greased_packet(bytes, 0, 0).ok())
            }
        };
        let address = match first.as_ref().or(other.as_ref()) {
            Some(packet) if packet.kind == PacketType::OneRtt => Address::Short(bytes),
            Some(packet) => Address::Long(packet.dcid.as_slice()),
            None => Address::Unreadable,
        };
        let found = self.find(tuple, src, dst, address);
        self.take(arrival, datagram, tuple, first.as_ref(), found, log)
    }

    /// Passes a datagram to the connection that was found, or starts a new one. `first` is its first packet.
    fn take(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        tuple: Tuple,
        first: Option<&Packet>,
        found: Found,
        mut log: PacketLog<'_>,
    ) -> Option<(&Connection, bool)> {
        let (id, from_client) = if let Found::Id(id, from_client) = found {
            (id, from_client)
        } else {
            let begun = self.moved_or_begun(arrival, datagram, tuple, first, &mut log);
            match (begun, found) {
                (Begun::New(id), _) => {
                    self.claim_held(arrival.ns, id);
                    return self.connections.get(id).map(|c| (&**c, true));
                }
                (Begun::Id(id, from_client), _)
                | (Begun::No, Found::TupleOnly(id, from_client)) => (id, from_client),
                // A datagram without a connection ID belongs to the newest connection, even if an earlier one between
                // these ends was removed. A long header has a connection ID, and it belongs to another connection.
                (Begun::Late, Found::TupleOnly(id, from_client))
                    if first.is_none_or(|packet| packet.kind == PacketType::OneRtt) =>
                {
                    (id, from_client)
                }
                (Begun::Held, _) => return None,
                (Begun::Late, _) => {
                    self.counters.late += 1;
                    return None;
                }
                (Begun::No, _) => {
                    self.counters.other_udp += 1;
                    return None;
                }
            }
        };
        let remembered = recovery::remembered(self.connections.len());
        let connection = self.connections.get_mut(id)?;
        connection.recovery.remembered = remembered;
        let (src, dst) = (datagram.src, datagram.dst);
        let path = if from_client { (src, dst) } else { (dst, src) };
        let was_closed = connection.closed;
        connection.datagram(
            &self.keyring,
            arrival,
            (from_client, path),
            first,
            &mut Bytes::new(datagram.payload, &mut self.scratch),
            log,
        );
        for cid in connection
            .new_server_cids
            .take()
            .into_iter()
            .flat_map(|cids| *cids)
        {
            self.by_cid.add(cid, id);
        }
        if connection.closed && !was_closed {
            self.expiry.close(id, arrival.ns);
        }
        let connections = &self.connections;
        self.by_cid.drop_others(|cid, id| {
            let connection = connections.get(id);
            connection.is_some_and(|c| c.owns(true, cid.as_slice()))
        });
        self.connections.get(id).map(|c| (&**c, from_client))
    }

    /// Releases the held datagrams of the new connection `id` for processing.
    fn claim_held(&mut self, ns: i64, id: Id) {
        if let Some(connection) = self.connections.get_mut(id) {
            let path = (connection.client, connection.server);
            if let Some(first_ns) = self.held.claim(ns, path, &connection.odcid) {
                connection.begins_at(first_ns);
            }
        }
    }

    /// Returns a held datagram for a connection that the last datagram started. Process it next.
    pub fn held_back(&mut self) -> Option<HeldDatagram> {
        self.held.ready()
    }

    /// Gives up held datagrams at the end of the capture. Their Initial is missing, so they belong to no connection.
    pub fn give_up_held(&mut self) {
        self.counters.other_udp += self.held.give_up();
    }

    /// Loads the connection state for datagrams between these addresses into the cache. The loads run concurrently;
    /// loaded one by one, each would wait for memory.
    pub fn prefetch<'a>(&self, ends: impl Iterator<Item = (&'a SocketAddr, &'a SocketAddr)>) {
        let mut touched = 0;
        for (src, dst) in ends {
            let ids = self.by_tuple.get(self.by_tuple.tuple(src, dst));
            if let Some(connection) = ids.last().and_then(|id| self.connections.get(*id)) {
                touched ^= connection.prefetch();
            }
        }
        black_box(touched);
    }

    /// Adds a key log from inside the capture.
    pub fn key_log(&mut self, text: &[u8]) {
        self.keyring.add(text);
    }

    /// Processes an ICMP error. Returns the connection of the quoted datagram. Without a connection ID in the quote,
    /// anybody who guesses the ports can forge the error, so it is final only if it is from the server's own address.
    pub fn icmp(&mut self, arrival: &Arrival, error: &IcmpError) -> Option<&Connection> {
        let (src, dst) = (&error.quoted_src, &error.quoted_dst);
        let ids = self.by_tuple.get(self.by_tuple.tuple(src, dst));
        let connections = &self.connections;
        let sent = |id: &&Id| {
            connections.get(**id).is_some_and(|c| {
                c.client == *src
                    && c.sender(src, dst).is_some()
                    && error.quoted_scid.is_none_or(|scid| scid == c.client_scid)
            })
        };
        let id = *ids.iter().rev().find(sent)?;
        let connection = self.connections.get_mut(id)?;
        let proven = error.quoted_scid.is_some() || error.source == dst.ip();
        let is_final = error.port_unreachable && proven;
        connection
            .timeline
            .icmp_error(arrival.ns, error.kind, error.code, is_final);
        Some(&*connection)
    }

    /// Removes and returns a connection that is expired at `now_ns`. Call it until it returns `None`.
    #[inline]
    pub fn expired(&mut self, now_ns: i64) -> Option<Box<Connection>> {
        let connections = &self.connections;
        let last_ns = |id| connections.get(id).map(|connection| connection.last_ns);
        let id = self.expiry.expired(now_ns, connections.len(), last_ns)?;
        self.remove(id)
    }

    /// Removes and returns a live connection, oldest first, at the end of a capture.
    pub fn drain(&mut self) -> Option<Box<Connection>> {
        while let Some(id) = self.expiry.drain() {
            if let Some(connection) = self.remove(id) {
                return Some(connection);
            }
        }
        None
    }

    /// Connections removed early due to a limit.
    pub fn evicted(&self) -> u64 {
        self.expiry.evicted()
    }

    fn remove(&mut self, id: Id) -> Option<Box<Connection>> {
        let mut connection = self.connections.remove(id)?;
        connection.prefetch_row();
        connection.merge_counts();
        for (client, server) in connection.other_paths() {
            self.by_tuple
                .remove(self.by_tuple.tuple(client, server), id);
        }
        let tuple = self.by_tuple.tuple(&connection.client, &connection.server);
        self.by_tuple.remove(tuple, id);
        for cid in connection.server_cids.iter() {
            self.by_cid.remove(cid, id);
        }
        // After a Retry, the client's Initials use its connection ID as destination and for keys.
        for cid in [Some(connection.odcid), connection.retry_scid]
            .iter()
            .flatten()
        {
            self.tombstones.add(self.by_tuple.with_cid(tuple, cid));
        }
        self.tombstones.add(tuple.hash());
        Some(connection)
    }

    /// Returns a removed connection's memory for reuse.
    pub fn give_back(&mut self, connection: Box<Connection>) {
        self.spare = Some(connection);
    }

    /// Finds the live connection by tuple and connection ID.
    fn find(
        &self,
        tuple: Tuple,
        src: &SocketAddr,
        dst: &SocketAddr,
        address: Address<'_>,
    ) -> Found {
        let mut found = Found::Nothing;
        for &id in self.by_tuple.get(tuple).iter().rev() {
            let Some(connection) = self.connections.get(id) else {
                continue;
            };
            let Some(from_client) = connection.sender(src, dst) else {
                continue;
            };
            let is_addressed = match address {
                Address::Short(datagram) => connection.owns_short(from_client, datagram),
                Address::Long(cid) => connection.owns(from_client, cid),
                Address::Unreadable => false,
            };
            if is_addressed {
                return Found::Id(id, from_client);
            }
            // If only the tuple matches, the datagram belongs to the newest connection, even if it is forged.
            if let Found::Nothing = found {
                found = Found::TupleOnly(id, from_client);
            }
        }
        found
    }
}

/// The address in a datagram's first packet.
#[derive(Clone, Copy)]
enum Address<'a> {
    /// The connection ID in a long header.
    Long(&'a [u8]),
    /// The datagram starts with a short header.
    Short(&'a [u8]),
    Unreadable,
}

/// A connection, and whether its client sent the datagram.
#[derive(Clone, Copy)]
enum Found {
    /// By tuple and connection ID.
    Id(Id, bool),
    /// By tuple. The connection ID is not one of the connection's.
    TupleOnly(Id, bool),
    Nothing,
}

#[cfg(test)]
mod tests;
