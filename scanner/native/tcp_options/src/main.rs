//! `firstflight-tcp-options`: which TCP options servers agree to.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

mod asking;
mod counts;
mod engine;
mod offered;
mod options;
mod outcome;
mod row;
mod setup;
mod summary;

use std::process::ExitCode;

use firstflight_usage::tell;
use options::Options;

fn main() -> ExitCode {
    let parsed = firstflight_usage::parse("firstflight tcp-options", "firstflight tcp-options");
    let options: Options = match parsed {
        Ok(options) => options,
        Err(status) => return status,
    };
    match setup::run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            tell!("firstflight tcp-options: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}
