//! The lab's quiche server: real handshakes with the first answer at a declared time. See README.md.
//!
//! It is a library, because `make testbed-setup` also builds it with a changed copy of quiche
//! (testbed/stacks/patched/quiche-sf).

#![forbid(unsafe_code)]

mod behaviour;
mod buffer;
mod connection;
mod http;
mod log;
mod server;
mod table;
mod tls;
mod token;

use std::process::ExitCode;

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (quiche ",
    env!("BUILT_WITH_QUICHE"),
    ")"
);

/// Runs the program `name`; returns the exit status if it cannot serve.
pub fn main(name: &str) -> ExitCode {
    firstflight_listener::run(name, VERSION, server::Edge::new)
}
