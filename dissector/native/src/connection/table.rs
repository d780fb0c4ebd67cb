//! Which connection a datagram belongs to, and when a connection is over.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::net::SocketAddr;

use firstflight_wire::{
    ConnectionId, InitialSecret, MAX_CID_LEN, Packet, PacketType, parse_packet,
};
use foldhash::fast::RandomState;

use super::path::Path;
use super::{Arrival, Connection, PacketLog};
use crate::ip::{Datagram, IcmpError};
use crate::keylog::Keyring;
use crate::timeline::Windows;

/// Port of HTTP/3: a datagram to it may begin a connection of a version that is not known.
const HTTPS: u16 = 443;
/// Smallest datagram that begins a connection (RFC 9000 14.1).
const MIN_INITIAL: usize = 1200;
/// Connections written out whose late packets are still told from new connections.
const REMEMBERED: usize = 1 << 18;

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

/// Addresses and ports of both ends, the smaller first.
type Tuple = (SocketAddr, SocketAddr);

/// The live connections.
pub struct Table {
    limits: Limits,
    /// Boxed: a map of large values would keep room for as many again.
    connections: HashMap<u64, Box<Connection>, RandomState>,
    by_tuple: HashMap<Tuple, Vec<u64>, RandomState>,
    by_cid: Directory,
    keyring: Keyring,
    next_id: u64,
    /// (time of the last look, id): those silent for longest come first, nearly.
    idle: VecDeque<(i64, u64)>,
    closing: VecDeque<(i64, u64)>,
    gone: HashSet<u64, RandomState>,
    gone_order: VecDeque<u64>,
    hasher: RandomState,
    pub counters: Counters,
}

impl Table {
    pub fn new(limits: Limits, keyring: Keyring) -> Table {
        Table {
            limits,
            connections: HashMap::default(),
            by_tuple: HashMap::default(),
            by_cid: Directory::default(),
            keyring,
            next_id: 0,
            idle: VecDeque::new(),
            closing: VecDeque::new(),
            gone: HashSet::default(),
            gone_order: VecDeque::new(),
            hasher: RandomState::default(),
            counters: Counters::default(),
        }
    }

    /// Takes a datagram; gives the connection that it belongs to and whether the client sent it. `bytes` is its
    /// payload, which is opened in place.
    pub fn datagram(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        bytes: &mut [u8],
        mut log: PacketLog<'_>,
    ) -> Option<(&Connection, bool)> {
        let (src, dst) = (datagram.src, datagram.dst);
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
                self.moved_or_begun(arrival, datagram, first.as_ref(), bytes, &mut log),
                found,
            ) {
                (Begun::New(id), _) => {
                    return self.connections.get(&id).map(|c| (&**c, true));
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
        let connection = self.connections.get_mut(&id)?;
        let from_client = connection.is_from_client(src, dst);
        let path = if from_client { (src, dst) } else { (dst, src) };
        let was_closed = connection.closed;
        connection.datagram(&self.keyring, arrival, from_client, path, bytes, log);
        for cid in std::mem::take(&mut connection.new_server_cids) {
            self.by_cid.add(cid, id);
        }
        if connection.closed && !was_closed {
            self.closing.push_back((arrival.ns, id));
        }
        Some((&*connection, from_client))
    }

    /// Takes a key log that the capture holds.
    pub fn key_log(&mut self, text: &[u8]) {
        self.keyring.add(text);
    }

    /// Takes an ICMP error; gives the connection whose datagram it quotes.
    pub fn icmp(&mut self, arrival: &Arrival, error: &IcmpError) -> Option<&Connection> {
        let ids = self
            .by_tuple
            .get(&tuple(error.quoted_src, error.quoted_dst))?;
        let connections = &self.connections;
        let sent = |id: &&u64| {
            connections
                .get(id)
                .is_some_and(|c| c.client == error.quoted_src)
        };
        let id = *ids.iter().rev().find(sent)?;
        let connection = self.connections.get_mut(&id)?;
        connection
            .timeline
            .icmp_error(arrival.ns, error.kind, error.code, error.port_unreachable);
        Some(&*connection)
    }

    /// A connection that is over by the time `now_ns`, if there is one; call it until there is none.
    pub fn expired(&mut self, now_ns: i64) -> Option<Box<Connection>> {
        if let Some(connection) = self
            .expired_from(now_ns, true)
            .or_else(|| self.expired_from(now_ns, false))
        {
            return Some(connection);
        }
        if self.connections.len() <= self.limits.max_connections {
            return None;
        }
        self.counters.evicted += 1;
        self.take_most_silent()
    }

    /// The connection that has been silent for longest, nearly: those that spoke since they were looked at are put back.
    fn take_most_silent(&mut self) -> Option<Box<Connection>> {
        for _ in 0..self.idle.len() {
            let (looked_ns, id) = self.idle.pop_front()?;
            match self.connections.get(&id) {
                Some(connection) if connection.last_ns > looked_ns => {
                    self.idle.push_back((connection.last_ns, id));
                }
                Some(_) => return self.remove(id),
                None => {}
            }
        }
        self.take_first()
    }

    /// Any live connection, oldest first: for the end of a capture.
    pub fn drain(&mut self) -> Option<Box<Connection>> {
        self.take_first()
    }

    fn expired_from(&mut self, now_ns: i64, closing: bool) -> Option<Box<Connection>> {
        let limit = if closing {
            self.limits.closing_ns
        } else {
            self.limits.idle_ns
        };
        let queue = if closing {
            &mut self.closing
        } else {
            &mut self.idle
        };
        while let Some(&(looked_ns, id)) = queue
            .front()
            .filter(|(looked_ns, _)| looked_ns + limit < now_ns)
        {
            queue.pop_front();
            match self.connections.get(&id) {
                // It spoke since: look again when its silence may have lasted long enough.
                Some(connection) if connection.last_ns > looked_ns => {
                    queue.push_back((connection.last_ns, id))
                }
                Some(_) => return self.remove(id),
                None => {}
            }
        }
        None
    }

    fn take_first(&mut self) -> Option<Box<Connection>> {
        while let Some((_, id)) = self.idle.pop_front() {
            if let Some(connection) = self.remove(id) {
                return Some(connection);
            }
        }
        None
    }

    fn remove(&mut self, id: u64) -> Option<Box<Connection>> {
        let connection = self.connections.remove(&id)?;
        let first = (connection.client, connection.server);
        for &(client, server) in connection.other_paths().iter().chain([&first]) {
            let key = tuple(client, server);
            if let Some(ids) = self.by_tuple.get_mut(&key) {
                ids.retain(|&other| other != id);
                if ids.is_empty() {
                    self.by_tuple.remove(&key);
                }
            }
        }
        for cid in connection.server_cids.iter() {
            self.by_cid.remove(cid, id);
        }
        let key = tuple(connection.client, connection.server);
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
        let Some(ids) = self.by_tuple.get(&tuple(src, dst)) else {
            return Found::Nothing;
        };
        let owner = ids.iter().rev().find(|id| {
            self.connections.get(id).is_some_and(|c| {
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
        bytes: &mut [u8],
        log: &mut PacketLog<'_>,
    ) -> Begun {
        let is_short = first.is_some_and(|packet| packet.kind == PacketType::OneRtt);
        if let Some(id) = self.by_cid.of_short(bytes).filter(|_| is_short)
            && let Some(connection) = self.connections.get_mut(&id)
        {
            let path: Path = (datagram.src, datagram.dst);
            if connection.add_path(path) {
                let ids = self.by_tuple.entry(tuple(path.0, path.1)).or_default();
                ids.push(id);
            }
            return Begun::Id(id);
        }
        self.begin(arrival, datagram, first, bytes, log)
    }

    /// Begins a connection if `first` is a client's Initial that opens by the keys of its own connection ID, or asks
    /// for a version that is not known here, in a place where QUIC is expected. It has taken the datagram then.
    fn begin(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        first: Option<&Packet>,
        bytes: &mut [u8],
        log: &mut PacketLog<'_>,
    ) -> Begun {
        let Some(packet) = first else {
            return self.not_begun(datagram);
        };
        let secret = match packet.kind {
            PacketType::Initial => InitialSecret::new(packet.version, &packet.dcid),
            PacketType::UnknownVersion if self.may_be_unknown_version(arrival, datagram) => None,
            _ => return self.not_begun(datagram),
        };
        if self.is_gone(datagram, Some(packet.dcid)) {
            return Begun::Late;
        }
        let path: Path = (datagram.src, datagram.dst);
        let windows = self.limits.windows;
        let mut connection = Box::new(Connection::new(path, packet, secret, arrival.ns, windows));
        connection.datagram(
            &self.keyring,
            arrival,
            true,
            path,
            bytes,
            log.as_deref_mut(),
        );
        if packet.kind == PacketType::Initial && !connection.has_opened() {
            // It begins nothing: undo what trying to open it did.
            bytes.copy_from_slice(datagram.payload);
            if let Some(log) = log {
                log.clear();
            }
            return self.not_begun(datagram);
        }
        let id = self.next_id;
        self.next_id += 1;
        for cid in std::mem::take(&mut connection.new_server_cids) {
            self.by_cid.add(cid, id);
        }
        if connection.closed {
            self.closing.push_back((arrival.ns, id));
        }
        self.connections.insert(id, connection);
        self.by_tuple
            .entry(tuple(path.0, path.1))
            .or_default()
            .push(id);
        self.idle.push_back((arrival.ns, id));
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
        let key = tuple(datagram.src, datagram.dst);
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
                .contains_key(&tuple(datagram.src, datagram.dst))
    }
}

/// Live connections by the connection IDs that their servers issued.
#[derive(Default)]
struct Directory {
    ids: HashMap<ConnectionId, u64>,
    /// How many have each length.
    lengths: [usize; MAX_CID_LEN + 1],
}

impl Directory {
    fn add(&mut self, cid: ConnectionId, id: u64) {
        // Short ones are met by chance.
        if cid.len() >= SHORTEST_KNOWN_AGAIN && self.ids.insert(cid, id).is_none() {
            self.lengths[cid.len()] += 1;
        }
    }

    fn remove(&mut self, cid: &ConnectionId, id: u64) {
        if self.ids.get(cid) == Some(&id) {
            self.ids.remove(cid);
            self.lengths[cid.len()] -= 1;
        }
    }

    /// The connection that a short header is addressed to, by the longest connection ID that is known.
    fn of_short(&self, datagram: &[u8]) -> Option<u64> {
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
    Id(u64),
    /// By tuple; the connection ID is none of its.
    TupleOnly(u64),
    Nothing,
}

enum Begun {
    /// It has taken the datagram.
    New(u64),
    /// One that lives; the datagram is still to be taken.
    Id(u64),
    Late,
    No,
}

fn tuple(a: SocketAddr, b: SocketAddr) -> Tuple {
    if a <= b { (a, b) } else { (b, a) }
}
