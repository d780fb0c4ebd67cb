//! The table of probes in flight, found by connection ID or by tuple.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};

use crate::exchange::Exchange;
use firstflight_core::clock::Stamp;
use firstflight_core::clock::{Mono, SECOND};
use firstflight_core::targets::TargetRef;

/// Maximum number of slots searched per second for stray datagrams: a few milliseconds of CPU time.
const BUDGET: usize = 10_000_000;

/// Number of places for connection IDs of removed probes: half a megabyte.
const MOST_TOMBSTONES: usize = if cfg!(test) { 3 } else { 65_536 };

/// Identifies a probe in flight. The handle is stale once the probe has left the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

/// A probe's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Another connection is due. The Initial is not sent yet.
    Queued,
    /// Waits for an answer.
    Open,
    /// Answered. Waits for retransmissions.
    Listening,
    /// Complete. Counts late datagrams.
    Cooldown,
}

/// One probe in flight.
pub struct Flight {
    pub target: TargetRef,
    /// Line of the target in the input.
    pub line: u32,
    pub to: SocketAddr,
    /// Number of the local port.
    pub port: u16,
    /// Group of the target; see [`firstflight_core::targets::Groups`].
    pub group: u32,
    pub attempt: u8,
    pub phase: Phase,
    /// The run finished before the answer was complete. The probe is closed and has no record.
    pub cut_off: bool,
    pub initial_size: u16,
    /// Number of this probe among the target's probes, from 0. A sweep has one probe per size.
    pub series: u8,
    /// Start of listening. After listening, the duration.
    pub listening: Option<Mono>,
    /// The Initial with the Retry's token was sent.
    pub token_sent: bool,
    pub after_close: u16,
    pub ttl: Option<u8>,
    pub local: Option<IpAddr>,
    pub first_sent: Option<Stamp>,
    pub sent_at: Option<Stamp>,
    /// Our clock immediately before sending, in case the stamp does not arrive. Only for deadlines.
    pub sent_about: Stamp,
    pub exchange: Exchange,
}

impl Flight {
    /// Returns when the Initial that counts was sent. Only for deadlines.
    pub fn sent(&self) -> Stamp {
        self.sent_at.unwrap_or(self.sent_about)
    }
}

/// A hasher for keys that are already uniform.
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
    /// Connection IDs of removed probes. Each one stays until another ID needs its place. The IDs are uniform.
    tombstones: Vec<u64>,
    /// Hash of peer and port of each slot. Lookups are rare and search all slots. The common case then costs one write
    /// instead of the two cache misses of a hash table.
    tuples: Vec<u64>,
    tuple_key: [u64; 3],
    /// Number of slots that may still be searched this second, so that a flood of stray datagrams cannot take all CPU
    /// time.
    budget: usize,
    budget_since: Mono,
}

impl Table {
    /// Creates a table. `key` is secret, so that nobody can choose addresses with colliding hashes.
    pub fn new(key: [u64; 3]) -> Self {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            by_cid: Index::default(),
            tombstones: vec![0; MOST_TOMBSTONES],
            tuples: Vec::new(),
            tuple_key: key,
            budget: BUDGET,
            budget_since: 0,
        }
    }

    /// Returns the number of probes in flight.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a probe; [`Self::index`] makes it findable.
    pub fn insert(&mut self, flight: Flight) -> Handle {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                flight: None,
            });
            self.tuples.push(0);
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.flight = Some(flight);
        Handle {
            slot,
            generation: place.generation,
        }
    }

    /// Returns the probe, if it is still in flight.
    pub fn get(&mut self, handle: Handle) -> Option<&mut Flight> {
        let slot = self.slots.get_mut(handle.slot as usize)?;
        if slot.generation == handle.generation {
            slot.flight.as_mut()
        } else {
            None
        }
    }

    /// Adds the probe's present connection ID and tuple to the indexes. Connection IDs of earlier attempts stay
    /// in the index.
    pub fn index(&mut self, handle: Handle) {
        let Some(flight) = self.get(handle) else {
            return;
        };
        let (cid, to, port) = (flight.exchange.client_cid, flight.to, flight.port);
        self.by_cid.insert(u64::from_be_bytes(cid), handle);
        self.tuples[handle.slot as usize] = self.tuple(to, port);
    }

    /// Removes a probe. `cids` are the connection IDs of all attempts.
    pub fn remove(
        &mut self,
        handle: Handle,
        cids: impl Iterator<Item = [u8; 8]>,
    ) -> Option<Flight> {
        self.get(handle)?;
        for cid in cids {
            let cid = u64::from_be_bytes(cid);
            self.by_cid.remove(&cid);
            self.tombstones[tombstone(cid)] = cid;
        }
        let slot = &mut self.slots[handle.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.slot);
        slot.flight.take()
    }

    /// Returns the probe with this connection ID, of any attempt.
    pub fn find_cid(&self, cid: [u8; 8]) -> Option<Handle> {
        self.by_cid.get(&u64::from_be_bytes(cid)).copied()
    }

    /// Returns whether a probe with this connection ID was removed. Old connection IDs may be forgotten.
    pub fn was_removed(&self, cid: [u8; 8]) -> bool {
        let cid = u64::from_be_bytes(cid);
        cid != 0 && self.tombstones[tombstone(cid)] == cid
    }

    /// Returns the probe from `port` to `peer`. Returns `None` if there are several, because a stray must never be
    /// attributed to the wrong probe. Also returns `None` after too many lookups this second.
    pub fn find_tuple(&mut self, peer: SocketAddr, port: u16, now: Mono) -> Option<Handle> {
        if now >= self.budget_since + SECOND {
            (self.budget, self.budget_since) = (BUDGET, now);
        }
        self.budget = self.budget.checked_sub(self.tuples.len())?;
        let tuple = self.tuple(peer, port);
        let fits = |slot: &Slot| {
            let flight = slot.flight.as_ref();
            flight.is_some_and(|flight| flight.to == peer && flight.port == port)
        };
        let same = self.tuples.iter().zip(&self.slots).enumerate();
        let mut same = same.filter(|(_, (hash, slot))| **hash == tuple && fits(slot));
        let (slot, (_, place)) = same.next()?;
        let handle = Handle {
            slot: slot as u32,
            generation: place.generation,
        };
        same.next().is_none().then_some(handle)
    }

    /// Returns all probes in flight.
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

    /// A keyed hash of peer and port: one wide multiplication, folded. Equal hashes are resolved by
    /// comparing.
    fn tuple(&self, peer: SocketAddr, port: u16) -> u64 {
        let ip = match peer.ip() {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let ports = u64::from(peer.port()) << 16 | u64::from(port);
        let high = (ip >> 64) as u64 ^ self.tuple_key[0];
        let low = ip as u64 ^ self.tuple_key[1] ^ ports.rotate_left(32);
        let product = u128::from(high ^ self.tuple_key[2].wrapping_add(low)) * u128::from(low);
        (product >> 64) as u64 ^ product as u64
    }
}

/// Returns a connection ID's place in `tombstones`.
fn tombstone(cid: u64) -> usize {
    (cid % MOST_TOMBSTONES as u64) as usize
}

#[cfg(test)]
pub(super) mod tests;
