//! Finds live connections by the addresses and ports of both ends, and by the server's connection IDs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use firstflight_wire::{ConnectionId, MAX_CID_LEN};
use foldhash::fast::RandomState;
use slotmap::new_key_type;
use smallvec::SmallVec;

/// Shortest connection ID that identifies a connection on other addresses.
const SHORTEST_KNOWN_AGAIN: usize = 4;

/// Number of unused connection IDs that may always be kept.
const FORGOTTEN: usize = 1024;

new_key_type! {
    /// A live connection.
    pub(super) struct Id;
}

/// Hash of the addresses and ports of both ends, in either order. A connection found by it must be compared with the
/// addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tuple(u64);

/// Live connections by [`Tuple`].
#[derive(Default)]
pub(super) struct Tuples {
    /// In the order of insertion: nearly always one.
    ids: HashMap<Tuple, SmallVec<[Id; 2]>, RandomState>,
    hasher: RandomState,
}

impl Tuples {
    pub(super) fn tuple(&self, a: &SocketAddr, b: &SocketAddr) -> Tuple {
        Tuple(match (a, b) {
            (SocketAddr::V4(a), SocketAddr::V4(b)) => {
                let word = |ip: u32, port: u16| u64::from(ip) << 16 | u64::from(port);
                let a = word((*a.ip()).into(), a.port());
                let b = word((*b.ip()).into(), b.port());
                self.hasher.hash_one((a.min(b), a.max(b)))
            }
            _ => self.hasher.hash_one(Ends::of(a, b)),
        })
    }

    /// A hash over a connection's tuple and the client's original destination connection ID.
    pub(super) fn with_cid(&self, tuple: Tuple, cid: &ConnectionId) -> u64 {
        self.hasher.hash_one((tuple, cid))
    }

    /// Connections that may be on the tuple, oldest first.
    pub(super) fn get(&self, tuple: Tuple) -> &[Id] {
        self.ids.get(&tuple).map_or(&[], |ids| ids)
    }

    pub(super) fn add(&mut self, tuple: Tuple, id: Id) {
        self.ids.entry(tuple).or_default().push(id);
    }

    pub(super) fn remove(&mut self, tuple: Tuple, id: Id) {
        if let Entry::Occupied(mut ids) = self.ids.entry(tuple) {
            ids.get_mut().retain(|other| *other != id);
            if ids.get().is_empty() {
                ids.remove();
            }
        }
    }
}

impl Tuple {
    /// The hash that identifies a removed connection.
    pub(super) fn hash(self) -> u64 {
        self.0
    }
}

/// Addresses and ports of both ends, the smaller first. Hashed as a few words.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends([(u128, u32); 2]);

impl Ends {
    fn of(a: &SocketAddr, b: &SocketAddr) -> Ends {
        let (a, b) = (end(a), end(b));
        Ends(if a <= b { [a, b] } else { [b, a] })
    }
}

impl Hash for Ends {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b] = self.0;
        state.write_u128(a.0);
        state.write_u128(b.0);
        state.write_u64(u64::from(a.1) << 32 | u64::from(b.1));
    }
}

/// An address as a number, and its port with a bit that distinguishes the families.
fn end(socket: &SocketAddr) -> (u128, u32) {
    let port = u32::from(socket.port());
    match socket.ip() {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)), port),
        IpAddr::V6(ip) => (u128::from(ip), port | 1 << 16),
    }
}

/// Live connections by the connection IDs that their servers issued.
#[derive(Default)]
pub(super) struct Directory {
    ids: HashMap<ConnectionId, Id, RandomState>,
    /// Number of connection IDs by length.
    lengths: [usize; MAX_CID_LEN + 1],
    /// With more entries, unused ones are removed.
    most: usize,
}

impl Directory {
    pub(super) fn add(&mut self, cid: ConnectionId, id: Id) {
        // Short ones match by chance.
        if cid.len() >= SHORTEST_KNOWN_AGAIN && self.ids.insert(cid, id).is_none() {
            self.lengths[cid.len()] += 1;
        }
    }

    pub(super) fn remove(&mut self, cid: &ConnectionId, id: Id) {
        if self.ids.get(cid) == Some(&id) {
            self.ids.remove(cid);
            self.lengths[cid.len()] -= 1;
        }
    }

    /// Removes connection IDs that their connections no longer use, once there are twice as many entries as after the
    /// last removal. A server may issue any number.
    pub(super) fn drop_others(&mut self, is_owned: impl Fn(&ConnectionId, Id) -> bool) {
        if self.ids.len() <= self.most {
            return;
        }
        self.ids.retain(|cid, id| {
            let is_owned = is_owned(cid, *id);
            self.lengths[cid.len()] -= usize::from(!is_owned);
            is_owned
        });
        self.most = 2 * self.ids.len() + FORGOTTEN;
    }

    /// The connection that a short header addresses, by the longest known connection ID that matches.
    pub(super) fn of_short(&self, datagram: &[u8]) -> Option<Id> {
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

#[cfg(test)]
mod tests;
