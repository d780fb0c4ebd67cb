//! The feed: commands on standard input during a run. [`Schedule`] holds the probes that are planned for set
//! times, pauses groups of targets, and notes skipped probes and the reasons.

mod commands;
mod pauses;
mod planned;
mod schedule;
mod skips;

pub use commands::Feed;
pub use pauses::Pauses;
pub use schedule::{Conditions, Due, Schedule};
pub use skips::{Reason, Skips};
