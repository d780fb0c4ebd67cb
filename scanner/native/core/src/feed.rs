//! The feed: commands on standard input while a run goes on. [`Schedule`] holds the probes that are planned
//! for set times, pauses groups of targets, and notes what was skipped and why.

mod commands;
mod pauses;
mod planned;
mod schedule;
mod skips;

pub use commands::Feed;
pub use pauses::Pauses;
pub use schedule::{Conditions, Due, Schedule};
pub use skips::{Reason, Skips};
