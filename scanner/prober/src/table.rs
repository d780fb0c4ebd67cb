//! Probes in flight, found by connection ID, by tuple, and by when something is due.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};

use crate::evidence::Stamp;
use crate::exchange::Exchange;

/// Names a probe in flight; stale once the probe has left the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

/// Where a probe stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Another connection is to be tried; its Initial has not left yet.
    Queued,
    /// An answer is waited for.
    Open,
    /// Over; late datagrams are counted.
    Lingering,
}

/// One probe in flight.
pub struct Flight {
    pub target: u32,
    /// Of the target in the input.
    pub line: u32,
    pub to: SocketAddr,
    /// Number of the port it is sent from.
    pub port: u16,
    pub attempt: u8,
    pub phase: Phase,
    pub initial_size: u16,
    /// The Initial with the Retry's token has left.
    pub token_sent: bool,
    pub after_close: u16,
    pub ttl: Option<u8>,
    pub local: Option<IpAddr>,
    pub first_sent: Option<Stamp>,
    pub sent_at: Option<Stamp>,
    /// Our own clock right before sending, in case the stamp does not come: for deadlines only.
    pub sent_about: Stamp,
    pub exchange: Exchange,
}

impl Flight {
    /// When the Initial that counts was sent, for deadlines.
    pub fn sent(&self) -> Stamp {
        self.sent_at.unwrap_or(self.sent_about)
    }
}

/// A hasher for keys that are uniform already.
#[derive(Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.is_empty(), "only u64 keys are hashed");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

type Index = HashMap<u64, Handle, BuildHasherDefault<AsIs>>;

struct Slot {
    generation: u32,
    flight: Option<Flight>,
}

/// All probes in flight.
pub struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_cid: Index,
    by_tuple: Index,
    tuple_key: [u64; 3],
}

impl Table {
    /// `key` keeps others from choosing addresses whose hashes collide.
    pub fn new(key: [u64; 3]) -> Self {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            by_cid: Index::default(),
            by_tuple: Index::default(),
            tuple_key: key,
        }
    }

    /// Number of probes in flight.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a probe in; [`Self::index`] makes it findable.
    pub fn insert(&mut self, flight: Flight) -> Handle {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                flight: None,
            });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.flight = Some(flight);
        Handle {
            slot,
            generation: place.generation,
        }
    }

    /// The probe, if it is still in flight.
    pub fn get(&mut self, handle: Handle) -> Option<&mut Flight> {
        let slot = self.slots.get_mut(handle.slot as usize)?;
        if slot.generation == handle.generation {
            slot.flight.as_mut()
        } else {
            None
        }
    }

    /// Makes the probe findable by its present connection ID and tuple. Connection IDs of earlier attempts stay.
    pub fn index(&mut self, handle: Handle) {
        let Some(flight) = self.get(handle) else {
            return;
        };
        let (cid, to, port) = (flight.exchange.client_cid, flight.to, flight.port);
        self.by_cid.insert(u64::from_be_bytes(cid), handle);
        self.by_tuple.insert(self.tuple(to, port), handle);
    }

    /// Makes the probe no longer findable by its present tuple.
    pub fn forget_tuple(&mut self, handle: Handle) {
        let Some((to, port)) = self.get(handle).map(|flight| (flight.to, flight.port)) else {
            return;
        };
        let tuple = self.tuple(to, port);
        if self.by_tuple.get(&tuple) == Some(&handle) {
            self.by_tuple.remove(&tuple);
        }
    }

    /// Takes a probe out. `cids`: connection IDs of all its attempts.
    pub fn remove(
        &mut self,
        handle: Handle,
        cids: impl Iterator<Item = [u8; 8]>,
    ) -> Option<Flight> {
        self.get(handle)?;
        self.forget_tuple(handle);
        for cid in cids {
            self.by_cid.remove(&u64::from_be_bytes(cid));
        }
        let slot = &mut self.slots[handle.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.slot);
        slot.flight.take()
    }

    /// The probe with this connection ID, of whatever attempt.
    pub fn find_cid(&self, cid: [u8; 8]) -> Option<Handle> {
        self.by_cid.get(&u64::from_be_bytes(cid)).copied()
    }

    /// The probe that last went from `port` to `peer`.
    pub fn find_tuple(&mut self, peer: SocketAddr, port: u16) -> Option<Handle> {
        let handle = self.by_tuple.get(&self.tuple(peer, port)).copied()?;
        self.get(handle)
            .filter(|flight| flight.to == peer && flight.port == port)
            .map(|_| handle)
    }

    /// All probes in flight.
    pub fn handles(&self) -> Vec<Handle> {
        let used = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.flight.is_some());
        used.map(|(i, slot)| Handle {
            slot: i as u32,
            generation: slot.generation,
        })
        .collect()
    }

    /// A keyed hash of peer and port, good enough for a table: one wide multiplication, folded.
    fn tuple(&self, peer: SocketAddr, port: u16) -> u64 {
        let ip = match peer.ip() {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let ports = u64::from(peer.port()) << 16 | u64::from(port);
        let (high, low) = (
            (ip >> 64) as u64 ^ self.tuple_key[0],
            ip as u64 ^ self.tuple_key[1],
        );
        let product = u128::from(low ^ high.rotate_left(32))
            * u128::from(self.tuple_key[2].wrapping_add(ports) | 1);
        (product >> 64) as u64 ^ product as u64
    }
}

#[cfg(test)]
impl Table {
    /// A handle that names nothing.
    pub fn handle_for_tests() -> Handle {
        Handle {
            slot: u32::MAX,
            generation: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(cid: u8) -> Flight {
        Flight {
            target: 0,
            line: 1,
            to: "127.0.0.1:443".parse().unwrap(),
            port: 3,
            attempt: 1,
            phase: Phase::Open,
            initial_size: 1252,
            token_sent: false,
            after_close: 0,
            ttl: None,
            local: None,
            first_sent: None,
            sent_at: None,
            sent_about: 0,
            exchange: Exchange::new([1; 8], [cid; 8]),
        }
    }

    #[test]
    fn found_until_removed() {
        let mut table = Table::new([9; 3]);
        let a = table.insert(flight(1));
        table.index(a);
        let b = table.insert(flight(2));
        table.index(b);
        let to = "127.0.0.1:443".parse().unwrap();
        assert_eq!(
            (table.find_cid([1; 8]), table.find_cid([2; 8])),
            (Some(a), Some(b))
        );
        assert_eq!(
            (table.find_tuple(to, 3), table.find_tuple(to, 4)),
            (Some(b), None)
        );
        assert!(table.remove(a, [[1; 8]].into_iter()).is_some() && table.get(a).is_none());
        assert_eq!(
            (table.find_tuple(to, 3), table.find_cid([1; 8]), table.len()),
            (Some(b), None, 1)
        );
        let c = table.insert(flight(3));
        assert!(c != a && table.get(a).is_none() && table.get(c).is_some());
    }
}
