//! Records of captures without the padding of Initials, which can be put back to the byte.
//!
//! An Initial's keys come from a connection ID that was sent in the clear, and its PADDING is zeros. What they
//! were sealed to is left out of a record, and the packet's tag, which stays, proves what is put back.

mod cut;
mod form;
mod keys;
mod restore;

pub use cut::{Cutter, NotRestored, Padding, Sealed};
pub use form::MAGIC;
pub use restore::{Restored, Restorer};

/// Stands in a pcap file's header where a precision of its times has its place, which no program writes or
/// reads: some records of it may lack padding.
pub const MARK: u32 = u32::from_be_bytes(*b"FFP1");

/// Frames above this length keep their padding: no datagram is longer.
const LONGEST: usize = u16::MAX as usize;

#[cfg(test)]
mod tests;
