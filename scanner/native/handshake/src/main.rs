//! `firstflight-handshake`: QUIC handshakes to their end, and one HTTP/3 request each.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

mod cdn;
mod connection;
mod counts;
mod engine;
mod finished;
mod flights;
mod options;
mod outcome;
mod request;
mod row;
mod setup;
mod summary;
mod tls;

use std::process::ExitCode;

use firstflight_usage::tell;
use options::Options;

fn main() -> ExitCode {
    let parsed = firstflight_usage::parse("firstflight handshake", "firstflight handshake");
    let options: Options = match parsed {
        Ok(options) => options,
        Err(status) => return status,
    };
    match setup::run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            tell!("firstflight handshake: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}
