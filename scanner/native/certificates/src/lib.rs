//! What a server's chain of DER certificates says, and whether it leads to a root.
//!
//! | module | |
//! | --- | --- |
//! | `describe` | the fields of one certificate |
//! | `algorithms`, `names`, `alternative_names`, `oid` | parts of it as text |
//! | `hashes` | what certificates and chains are identified by |
//! | `matching` | whether a certificate is for a name |
//! | `roots`, `verify` | trust: the store of roots, the path to one of them |
//!
//! Certificates come from anybody: nothing here panics on them, and every text that they fill is bounded.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

mod algorithms;
mod alternative_names;
mod describe;
mod hashes;
mod matching;
mod names;
mod oid;
mod roots;
#[cfg(test)]
mod testing;
mod verify;

pub use describe::{Certificate, describe};
pub use hashes::{chain_sha256, sha256};
pub use matching::name_matches;
pub use roots::Roots;
pub use verify::Verifier;
