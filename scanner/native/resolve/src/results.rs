//! The results of a run: outcomes, counts and rows.

pub mod counts;
pub mod outcome;
pub mod row;
