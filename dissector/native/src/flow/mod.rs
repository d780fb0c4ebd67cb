//! What holds for flows of any protocol: tables of live ones and when they are over, which bytes were sent,
//! volume, pacing, quantiles, distributions.

pub mod coverage;
pub mod expiry;
pub mod pacing;
pub mod quantiles;
pub mod spread;
pub mod table;
pub mod tombstones;
pub mod volume;
