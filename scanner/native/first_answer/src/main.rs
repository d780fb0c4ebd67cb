//! `firstflight-prober`: probes how QUIC servers answer the first flight of a connection.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

mod counts;
mod ecn;
mod engine;
mod evidence;
mod exchange;
mod finished;
mod options;
mod outcome;
mod pace;
mod packets;
mod probes;
mod row;
mod setup;
mod sizes;
mod summary;

use std::process::ExitCode;

use firstflight_core::arguments::with_version_option;
use firstflight_core::program;

fn main() -> ExitCode {
    let arguments = with_version_option(std::env::args_os());
    program::execute_from(arguments, "firstflight probe", setup::run)
}
