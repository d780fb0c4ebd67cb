//! `firstflight-prober`: how QUIC servers answer the first flight of a connection.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

mod counts;
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
use options::Options;

fn main() -> ExitCode {
    let options: Options = match firstflight_usage::parse("firstflight probe", "firstflight probe")
    {
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
