//! What every engine of the scanner stands on: which addresses may be contacted, how often, and by which way; targets,
//! feed, records, signals.
//!
//! An engine knows a protocol: it writes datagrams and understands answers. Everything else is here. This crate alone
//! owns sockets; an engine sends by [`egress`], which asks [`policy`] about every single datagram.

pub mod clock;
pub mod egress;
mod error;
pub mod feed;
pub mod inputs;
mod messages;
pub mod policy;
pub mod progress;
pub mod random;
pub mod rate_limit;
pub mod receive;
pub mod records;
pub mod shared_limits;
pub mod signals;
pub mod targets;
pub mod timers;

pub use error::Failure;
