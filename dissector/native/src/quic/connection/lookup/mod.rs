//! Finds the connection for a datagram, by its five-tuple and its connection IDs.

mod directory;
mod table;

pub use table::{Counters, HeldDatagram, Limits, Table};
