//! Which connection a datagram belongs to, and when a connection is over.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use firstflight_wire::{ConnectionId, MAX_CID_LEN, Packet, PacketType, parse_packet};
use foldhash::fast::RandomState;
use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;

use super::path::Path;
use super::{Arrival, Bytes, Connection, PacketLog};
use crate::ip::{Datagram, IcmpError};
use crate::keylog::Keyring;
use crate::timeline::Windows;

/// Port of HTTP/3: a datagram to it may begin a connection of a version that is not known.
const HTTPS: u16 = 443;
/// Smallest datagram that begins a connection (RFC 9000 14.1).
const MIN_INITIAL: usize = 1200;
/// Connections written out whose late packets are still told from new connections.
const REMEMBERED: usize = 1 << 18;

/// Connections whose keys are kept, newest first; those of others are made again when a packet needs them. Keys take more
/// room than all else that is known of a connection.
const HOLDERS: usize = 1024;

/// Shortest connection ID by which a connection is known again on other addresses.
const SHORTEST_KNOWN_AGAIN: usize = 4;

/// What bounds a table.
#[derive(Clone, Debug)]
pub struct Limits {
    pub windows: Windows,
    /// Silence after which a connection is over.
    pub idle_ns: i64,
    /// The same after a CONNECTION_CLOSE.
    pub closing_ns: i64,
    pub max_connections: usize,
    /// Ports to look at; empty: all.
    pub ports: Vec<u16>,
}

/// Packets that became no part of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Of connections that had been written out.
    pub late: u64,
    /// UDP that begins no connection and belongs to none.
    pub other_udp: u64,
    /// Connections written out early because there were too many.
    pub evicted: u64,
}

new_key_type! {
    /// A live connection.
    struct Id;
}

/// Connections on one pair of addresses and ports, in the order of their beginning: nearly always one.
type Ids = SmallVec<[Id; 2]>;

/// The live connections.
pub struct Table {
    limits: Limits,
    /// Boxed: a table of large values would keep room for as many again.
    connections: SlotMap<Id, Box<Connection>>,
    by_tuple: HashMap<Tuple, Ids, RandomState>,
    by_cid: Directory,
    keyring: Keyring,
    /// (time of the last look, id), the earliest first: whoever spoke since goes back with the time when it did.
    idle: BinaryHeap<Reverse<(i64, Id)>>,
    closing: VecDeque<(i64, Id)>,
    /// Those that hold keys, oldest first.
    holders: VecDeque<Id>,
    gone: HashSet<u64, RandomState>,
    gone_order: VecDeque<u64>,
    hasher: RandomState,
    /// Where packets are opened.
    scratch: Vec<u8>,
    pub counters: Counters,
}

impl Table {
    pub fn new(limits: Limits, keyring: Keyring) -> Table {
        Table {
            limits,
            connections: SlotMap::with_key(),
            by_tuple: HashMap::default(),
            by_cid: Directory::default(),
            keyring,
            idle: BinaryHeap::new(),
            closing: VecDeque::new(),
            holders: VecDeque::new(),
            gone: HashSet::default(),
            gone_order: VecDeque::new(),
            hasher: RandomState::default(),
            scratch: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Takes a datagram; gives the connection that it belongs to and whether the client sent it.
    pub fn datagram(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        mut log: PacketLog<'_>,
    ) -> Option<(&Connection, bool)> {
        let (src, dst, bytes) = (datagram.src, datagram.dst, datagram.payload);
        if !self.limits.ports.is_empty()
            && ![src.port(), dst.port()]
                .iter()
                .any(|p| self.limits.ports.contains(p))
        {
            return None;
        }
        let first = parse_packet(bytes, 0, 0).ok();
        let id = match self.find(src, dst, first.as_ref(), bytes) {
            Found::Id(id) => id,
            found => match (
                self.moved_or_begun(arrival, datagram, first.as_ref(), &mut log),
                found,
            ) {
                (Begun::New(id), _) => {
                    return self.connections.get(id).map(|c| (&**c, true));
                }
                (Begun::Id(id), _) | (Begun::No, Found::TupleOnly(id)) => id,
                (Begun::Late, _) => {
                    self.counters.late += 1;
                    return None;
                }
                (Begun::No, _) => {
                    self.counters.other_udp += 1;
                    return None;
                }
            },
        };
        let connection = self.connections.get_mut(id)?;
        let from_client = connection.is_from_client(src, dst);
        let path = if from_client { (src, dst) } else { (dst, src) };
        let was_closed = connection.closed;
        let mut bytes = Bytes::new(bytes, &mut self.scratch);
        let first = first.as_ref();
        connection.datagram(
            &self.keyring,
            arrival,
            (from_client, path),
            first,
            &mut bytes,
            log,
        );
        for cid in connection.new_server_cids.drain(..) {
            self.by_cid.add(cid, id);
        }
        if connection.closed && !was_closed {
            self.closing.push_back((arrival.ns, id));
        }
        if connection.holds_keys() && !connection.counts_as_holder {
            self.holds_keys(id);
        }
        self.connections.get(id).map(|c| (&**c, from_client))
    }

    /// Counts a connection among those that hold keys; the one that has been longest among them loses its own.
    fn holds_keys(&mut self, id: Id) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.counts_as_holder = true;
            self.holders.push_back(id);
        }
        if self.holders.len() > HOLDERS
            && let Some(oldest) = self.holders.pop_front()
            && let Some(connection) = self.connections.get_mut(oldest)
        {
            connection.counts_as_holder = false;
            connection.let_go_of_keys();
        }
    }

    /// Takes a key log that the capture holds.
    pub fn key_log(&mut self, text: &[u8]) {
        self.keyring.add(text);
    }

    /// Takes an ICMP error; gives the connection whose datagram it quotes.
    pub fn icmp(&mut self, arrival: &Arrival, error: &IcmpError) -> Option<&Connection> {
        let ids = self
            .by_tuple
            .get(&Tuple::of(error.quoted_src, error.quoted_dst))?;
        let connections = &self.connections;
        let sent = |id: &&Id| {
            connections
                .get(**id)
                .is_some_and(|c| c.client == error.quoted_src)
        };
        let id = *ids.iter().rev().find(sent)?;
        let connection = self.connections.get_mut(id)?;
        connection
            .timeline
            .icmp_error(arrival.ns, error.kind, error.code, error.port_unreachable);
        Some(&*connection)
    }

    /// A connection that is over by the time `now_ns`, if there is one; call it until there is none.
    pub fn expired(&mut self, now_ns: i64) -> Option<Box<Connection>> {
        if let Some(connection) = self.expired_closing(now_ns) {
            return Some(connection);
        }
        let is_full = self.connections.len() > self.limits.max_connections;
        while let Some(Reverse((looked_ns, id))) = self.idle.peek().copied() {
            let is_over = looked_ns.saturating_add(self.limits.idle_ns) < now_ns;
            if !is_over && !is_full {
                return None;
            }
            self.idle.pop();
            match self.connections.get(id) {
                // It spoke since: look again when its silence may have lasted long enough.
                Some(connection) if connection.last_ns > looked_ns => {
                    self.idle.push(Reverse((connection.last_ns, id)));
                }
                Some(_) => {
                    // Of all that live, it has been silent for longest.
                    self.counters.evicted += u64::from(!is_over);
                    return self.remove(id);
                }
                None => {}
            }
        }
        None
    }

    fn expired_closing(&mut self, now_ns: i64) -> Option<Box<Connection>> {
        let limit = self.limits.closing_ns;
        let first = |queue: &VecDeque<(i64, Id)>| queue.front().copied();
        while let Some((looked_ns, id)) =
            first(&self.closing).filter(|(looked_ns, _)| looked_ns.saturating_add(limit) < now_ns)
        {
            self.closing.pop_front();
            match self.connections.get(id) {
                Some(connection) if connection.last_ns > looked_ns => {
                    self.closing.push_back((connection.last_ns, id));
                }
                Some(_) => return self.remove(id),
                None => {}
            }
        }
        None
    }

    /// Any live connection, oldest first: for the end of a capture.
    pub fn drain(&mut self) -> Option<Box<Connection>> {
        while let Some(Reverse((_, id))) = self.idle.pop() {
            if let Some(connection) = self.remove(id) {
                return Some(connection);
            }
        }
        None
    }

    fn remove(&mut self, id: Id) -> Option<Box<Connection>> {
        let connection = self.connections.remove(id)?;
        let first = (connection.client, connection.server);
        for &(client, server) in connection.other_paths().iter().chain([&first]) {
            if let Entry::Occupied(mut ids) = self.by_tuple.entry(Tuple::of(client, server)) {
                ids.get_mut().retain(|other| *other != id);
                if ids.get().is_empty() {
                    ids.remove();
                }
            }
        }
        for cid in connection.server_cids.iter() {
            self.by_cid.remove(cid, id);
        }
        let key = Tuple::of(connection.client, connection.server);
        // What is left of it: a hash of its identity and one of its tuple.
        for hash in [
            self.hasher.hash_one((key, connection.odcid)),
            self.hasher.hash_one(key),
        ] {
            if self.gone.insert(hash) {
                self.gone_order.push_back(hash);
            }
        }
        while self.gone_order.len() > REMEMBERED {
            if let Some(hash) = self.gone_order.pop_front() {
                self.gone.remove(&hash);
            }
        }
        Some(connection)
    }

    /// Finds the live connection by tuple and connection IDs.
    fn find(
        &self,
        src: SocketAddr,
        dst: SocketAddr,
        first: Option<&Packet>,
        bytes: &[u8],
    ) -> Found {
        let Some(ids) = self.by_tuple.get(&Tuple::of(src, dst)) else {
            return Found::Nothing;
        };
        let owner = ids.iter().rev().find(|id| {
            self.connections.get(**id).is_some_and(|c| {
                let from_client = c.is_from_client(src, dst);
                match first {
                    Some(packet) if packet.kind == PacketType::OneRtt => {
                        c.owns_short(from_client, bytes)
                    }
                    Some(packet) => c.owns(from_client, &packet.dcid),
                    None => false,
                }
            })
        });
        // The tuple alone says that it was meant for the newest connection, forged or not.
        match (owner, ids.last()) {
            (Some(&id), _) => Found::Id(id),
            (None, Some(&id)) => Found::TupleOnly(id),
            (None, None) => Found::Nothing,
        }
    }

    /// The client's short header from or to an address that its connection did not use before, or a new connection.
    fn moved_or_begun(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        first: Option<&Packet>,
        log: &mut PacketLog<'_>,
    ) -> Begun {
        let is_short = first.is_some_and(|packet| packet.kind == PacketType::OneRtt);
        if let Some(id) = self.by_cid.of_short(datagram.payload).filter(|_| is_short)
            && let Some(connection) = self.connections.get_mut(id)
        {
            let path: Path = (datagram.src, datagram.dst);
            if connection.add_path(path) {
                let ids = self.by_tuple.entry(Tuple::of(path.0, path.1)).or_default();
                ids.push(id);
            }
            return Begun::Id(id);
        }
        self.begin(arrival, datagram, first, log)
    }

    /// Begins a connection if `first` is a client's Initial that opens by the keys of its own connection ID, or asks
    /// for a version that is not known here, in a place where QUIC is expected. It has taken the datagram then.
    fn begin(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        first: Option<&Packet>,
        log: &mut PacketLog<'_>,
    ) -> Begun {
        let Some(packet) = first else {
            return self.not_begun(datagram);
        };
        match packet.kind {
            PacketType::Initial => {}
            PacketType::UnknownVersion if self.may_be_unknown_version(arrival, datagram) => {}
            _ => return self.not_begun(datagram),
        }
        if self.is_gone(datagram, Some(packet.dcid)) {
            return Begun::Late;
        }
        let path: Path = (datagram.src, datagram.dst);
        let windows = self.limits.windows;
        let mut connection = Box::new(Connection::new(path, packet, arrival.ns, windows));
        connection.datagram(
            &self.keyring,
            arrival,
            (true, path),
            first,
            &mut Bytes::new(datagram.payload, &mut self.scratch),
            log.as_deref_mut(),
        );
        if packet.kind == PacketType::Initial && !connection.has_opened() {
            // It begins nothing.
            if let Some(log) = log {
                log.clear();
            }
            return self.not_begun(datagram);
        }
        let cids: SmallVec<[ConnectionId; 4]> = connection.new_server_cids.drain(..).collect();
        let (is_closed, holds_keys) = (connection.closed, connection.holds_keys());
        let id = self.connections.insert(connection);
        for cid in cids {
            self.by_cid.add(cid, id);
        }
        if is_closed {
            self.closing.push_back((arrival.ns, id));
        }
        if holds_keys {
            self.holds_keys(id);
        }
        self.by_tuple
            .entry(Tuple::of(path.0, path.1))
            .or_default()
            .push(id);
        self.idle.push(Reverse((arrival.ns, id)));
        Begun::New(id)
    }

    fn not_begun(&self, datagram: &Datagram<'_>) -> Begun {
        if self.is_gone(datagram, None) {
            Begun::Late
        } else {
            Begun::No
        }
    }

    fn is_gone(&self, datagram: &Datagram<'_>, odcid: Option<ConnectionId>) -> bool {
        let key = Tuple::of(datagram.src, datagram.dst);
        self.gone.contains(&odcid.map_or_else(
            || self.hasher.hash_one(key),
            |cid| self.hasher.hash_one((key, cid)),
        ))
    }

    fn may_be_unknown_version(&self, arrival: &Arrival, datagram: &Datagram<'_>) -> bool {
        let port = datagram.dst.port();
        arrival.length >= MIN_INITIAL
            && (port == HTTPS || self.limits.ports.contains(&port))
            && !self
                .by_tuple
                .contains_key(&Tuple::of(datagram.src, datagram.dst))
    }
}

/// Live connections by the connection IDs that their servers issued.
#[derive(Default)]
struct Directory {
    ids: HashMap<ConnectionId, Id, RandomState>,
    /// How many have each length.
    lengths: [usize; MAX_CID_LEN + 1],
}

impl Directory {
    fn add(&mut self, cid: ConnectionId, id: Id) {
        // Short ones are met by chance.
        if cid.len() >= SHORTEST_KNOWN_AGAIN && self.ids.insert(cid, id).is_none() {
            self.lengths[cid.len()] += 1;
        }
    }

    fn remove(&mut self, cid: &ConnectionId, id: Id) {
        if self.ids.get(cid) == Some(&id) {
            self.ids.remove(cid);
            self.lengths[cid.len()] -= 1;
        }
    }

    /// The connection that a short header is addressed to, by the longest connection ID that is known.
    fn of_short(&self, datagram: &[u8]) -> Option<Id> {
        let rest = datagram.get(1..)?;
        let lengths = (SHORTEST_KNOWN_AGAIN..=MAX_CID_LEN).rev();
        lengths
            .filter(|&length| self.lengths[length] > 0)
            .find_map(|length| {
                let cid = ConnectionId::new(rest.get(..length)?).ok()?;
                self.ids.get(&cid).copied()
            })
    }
}

enum Found {
    /// By tuple and connection ID.
    Id(Id),
    /// By tuple; the connection ID is none of its.
    TupleOnly(Id),
    Nothing,
}

enum Begun {
    /// It has taken the datagram.
    New(Id),
    /// One that lives; the datagram is still to be taken.
    Id(Id),
    Late,
    No,
}

/// Addresses and ports of both ends, the smaller first; hashed as a few words.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tuple([(u128, u32); 2]);

impl Tuple {
    fn of(a: SocketAddr, b: SocketAddr) -> Tuple {
        let (a, b) = (end(a), end(b));
        Tuple(if a <= b { [a, b] } else { [b, a] })
    }
}

impl Hash for Tuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b] = self.0;
        state.write_u128(a.0);
        state.write_u128(b.0);
        state.write_u64(u64::from(a.1) << 32 | u64::from(b.1));
    }
}

/// An address as a number, and its port with a bit that tells the families apart.
fn end(socket: SocketAddr) -> (u128, u32) {
    let port = u32::from(socket.port());
    match socket.ip() {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)), port),
        IpAddr::V6(ip) => (u128::from(ip), port | 1 << 16),
    }
}
