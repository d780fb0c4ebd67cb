//! Records without the padding of Initials. The padding can be restored exactly.
//!
//! An Initial's keys are derived from a connection ID that is sent in the clear, and its PADDING is zeros. So a record
//! can omit the encrypted padding. The packet's tag stays in the record and proves that the restored bytes are correct.

mod cut;
mod form;
mod keys;
mod restore;

pub use cut::{Cutter, NotRestored, Padding, Sealed};
pub use form::MAGIC;
pub use restore::{Restored, Restorer};

/// A mark in the `sigfigs` field in a pcap file's header, which other programs neither set nor read. Records in a file
/// with this mark may lack padding.
pub const MARK: u32 = u32::from_be_bytes(*b"FFP1");

/// Longest frame that may lack padding; no datagram is longer.
const LONGEST: usize = u16::MAX as usize;

#[cfg(test)]
mod tests;
