//! The engine of the handshake stage: completes QUIC handshakes and sends one HTTP/3 request in each. `main.rs` is the
//! program. The rules that identify a CDN are public, for the comparison with those in Python (tests/rules).

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod cdn;
mod connection;
mod counts;
mod engine;
mod finished;
mod flights;
#[cfg(test)]
#[path = "../../../../tests/numbers.rs"]
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

/// Runs the program with the arguments of this process, and returns the exit status.
pub fn main() -> ExitCode {
    let arguments = with_version_option(std::env::args_os());
    program::execute_from(arguments, "firstflight handshake", setup::run)
}
