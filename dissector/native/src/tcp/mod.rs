//! TCP flows.

pub mod coverage;
