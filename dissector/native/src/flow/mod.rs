//! What holds for flows of any protocol: tables of live ones, which bytes were sent, volume, gaps, quantiles.

pub mod coverage;
pub mod pacing;
pub mod quantiles;
pub mod table;
pub mod volume;
