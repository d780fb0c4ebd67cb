//! `firstflight-handshake`: QUIC handshakes to their end, and one HTTP/3 request each.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

mod cdn;
mod connection;
mod counts;
mod engine;
mod finished;
mod flights;
#[cfg(test)]
mod numbers;
mod options;
mod outcome;
mod request;
mod row;
mod setup;
mod stack;
mod summary;
mod tls;

use std::process::ExitCode;

use firstflight_core::arguments::with_version_option;
use firstflight_core::program;

/// Connections are made on one thread and freed, with what TLS keeps of them, on the one that writes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = with_version_option(std::env::args_os());
    program::execute_from(arguments, "firstflight handshake", setup::run)
}
