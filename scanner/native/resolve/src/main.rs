//! `firstflight-resolve`: asks resolvers for addresses and HTTPS records of names.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

use std::process::ExitCode;

use firstflight_resolve::{Options, PROGRAM, run};
use firstflight_usage::tell;

fn main() -> ExitCode {
    let options: Options = match firstflight_usage::parse(PROGRAM, PROGRAM) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            tell!("{PROGRAM}: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}
