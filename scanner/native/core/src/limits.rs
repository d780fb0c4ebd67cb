//! Whether and when an address may be contacted.

pub mod policy;
pub mod rate_limit;
pub mod shared_limits;
