//! All connections in flight, found by our connection ID.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use firstflight_core::clock::Mono;
use firstflight_core::targets::TargetRef;

use crate::connection::Connection;
use crate::finished::Sent;

/// Identifies a connection in flight. The handle is stale once the connection has left the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

/// One connection in flight.
pub struct Flight {
    pub target: TargetRef,
    pub to: SocketAddr,
    /// Number of the local port.
    pub port: u16,
    pub connection: Box<Connection>,
    /// The first connection to the target, if this is the second.
    pub first: Option<Box<Sent>>,
    pub after_close: u16,
    pub ttl: Option<u8>,
    pub local: Option<IpAddr>,
    /// The queue of the port contains this connection.
    pub queued: bool,
    /// Time of the timer that is set, if any.
    pub timer: Option<Mono>,
    /// The run ended before the connection. The connection is closed and has no record.
    pub cut_off: bool,
    /// Late datagrams are counted until this time.
    pub gone_at: Option<Mono>,
}

impl Flight {
    /// Creates a connection to `target` (reference, address, number of the local port).
    pub fn new(
        (target, to, port): (TargetRef, SocketAddr, u16),
        connection: Connection,
        first: Option<Box<Sent>>,
    ) -> Flight {
        Flight {
            target,
            to,
            port,
            connection: Box::new(connection),
            first,
            after_close: 0,
            ttl: None,
            local: None,
            queued: false,
            timer: None,
            cut_off: false,
            gone_at: None,
        }
    }
}

struct Slot {
    generation: u32,
    flight: Option<Flight>,
}

/// All connections in flight.
#[derive(Default)]
pub struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_cid: HashMap<[u8; 8], Handle>,
}

impl Table {
    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a connection.
    pub fn insert(&mut self, flight: Flight) -> Handle {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                flight: None,
            });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        let handle = Handle {
            slot,
            generation: place.generation,
        };
        self.by_cid.insert(flight.connection.client_cid, handle);
        place.flight = Some(flight);
        handle
    }

    /// Returns the connection, if it is still in flight.
    pub fn get(&mut self, handle: Handle) -> Option<&mut Flight> {
        let slot = self.slots.get_mut(handle.slot as usize)?;
        if slot.generation == handle.generation {
            slot.flight.as_mut()
        } else {
            None
        }
    }

    /// Removes a connection.
    pub fn remove(&mut self, handle: Handle) -> Option<Flight> {
        let cid = self.get(handle)?.connection.client_cid;
        self.by_cid.remove(&cid);
        let slot = &mut self.slots[handle.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.slot);
        slot.flight.take()
    }

    /// Returns the connection with this connection ID.
    pub fn find(&self, cid: [u8; 8]) -> Option<Handle> {
        self.by_cid.get(&cid).copied()
    }

    /// Returns all connections in flight.
    pub fn handles(&self) -> Vec<Handle> {
        let mut handles: Vec<Handle> = self.by_cid.values().copied().collect();
        handles.sort_unstable();
        handles
    }
}
