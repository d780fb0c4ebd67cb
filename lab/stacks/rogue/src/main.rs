//! The lab's misbehaving QUIC hosts. See README.md for the modes and their outcomes.

#![forbid(unsafe_code)]

mod modes;
mod script;
mod server;
mod session;

use std::process::ExitCode;

fn main() -> ExitCode {
    firstflight_listener::run(
        "firstflight-rogue",
        env!("CARGO_PKG_VERSION"),
        server::Rogue::new,
    )
}
