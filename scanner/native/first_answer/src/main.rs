//! `firstflight-prober`: how QUIC servers answer the first flight of a connection.

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
mod packets;
mod probes;
mod row;
mod setup;
mod summary;

use std::process::ExitCode;

use firstflight_usage::tell;
use options::{Options, with_version_option};

fn main() -> ExitCode {
    let arguments = with_version_option(std::env::args_os());
    let parsed = firstflight_usage::parse_from(arguments, "firstflight probe", "firstflight probe");
    let options: Options = match parsed {
        Ok(options) => options,
        Err(status) => return status,
    };
    match setup::run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            tell!("firstflight probe: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}
