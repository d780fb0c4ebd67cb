//! Components for flows of any protocol: tables and expiry, seen bytes, volume, pacing, quantiles, distributions.

pub mod coverage;
pub mod expiry;
pub mod pacing;
pub mod quantiles;
pub mod spread;
pub mod table;
pub mod tombstones;
pub mod volume;
