//! The feed: commands on standard input during a run. [`Schedule`] holds the probes that are planned for set
//! times, and pauses groups of targets.

mod commands;
mod pauses;
mod planned;
mod schedule;

pub use commands::Feed;
pub use pauses::Pauses;
pub use schedule::{Conditions, Due, Schedule};
