//! The input of a run: names, and the answers of an earlier run.

pub mod answered;
pub mod names;
pub mod resume;
