//! Reads a server's chain of DER certificates, and verifies whether it leads to a root.
//!
//! | module | |
//! | --- | --- |
//! | `parts` | a certificate split into its fields |
//! | `describe` | the fields of one certificate |
//! | `algorithms`, `names`, `alternative_names`, `oid` | parts of a certificate as text |
//! | `hashes` | hashes that identify certificates and chains |
//! | `possession`, `pss` | whether a server has the private key for a certificate |
//! | `matching` | whether a certificate is for a name |
//! | `roots`, `verify` | trust: the store of roots, the path to one of them |
//!
//! Certificates are untrusted input: no function panics on them, and every text taken from a certificate is
//! bounded.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

mod algorithms;
mod alternative_names;
mod describe;
mod hashes;
mod matching;
mod names;
#[cfg(test)]
#[path = "../../../../tests/numbers.rs"]
mod numbers;
mod oid;
mod parts;
mod possession;
mod pss;
mod roots;
#[cfg(test)]
mod testing;
mod verify;

pub use describe::{Certificate, describe};
pub use hashes::{chain_sha256, sha256};
pub use matching::name_matches;
pub use possession::has_signed;
pub use roots::Roots;
pub use verify::Verifier;
