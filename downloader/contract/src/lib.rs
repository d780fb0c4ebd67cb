//! The contract of download clients (`downloader/clients/contract.py`) for clients in Rust: one request per line on
//! standard input, one answer per line on standard output. The download stage's client and the testbed's clients use
//! it. It has no sockets and no QUIC stack, because some stacks cannot be in the same program.
//!
//! | module | |
//! | --- | --- |
//! | [`request`] | requests |
//! | [`answer`] | answers |
//! | [`program`] | help, version, and the loop over requests |

#![forbid(unsafe_code)]
#![warn(clippy::print_stderr)]

pub mod answer;
pub mod program;
pub mod request;

pub use answer::{ClientAnswer, End};
pub use request::{Http, Method, Request};
