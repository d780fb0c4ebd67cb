//! The input of a run: lists, and the targets in them.

pub mod lists;
pub mod targets;
