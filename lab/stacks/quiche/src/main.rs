//! The lab's quiche server: real handshakes with the first answer at a declared time. See README.md.

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

fn main() -> ExitCode {
    firstflight_listener::run(
        "firstflight-edge",
        concat!(
            env!("CARGO_PKG_VERSION"),
            " (quiche ",
            env!("BUILT_WITH_QUICHE"),
            ")"
        ),
        server::Edge::new,
    )
}
