//! `firstflight-resolve`: queries resolvers for addresses and HTTPS records of names.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

use std::process::ExitCode;

use firstflight_core::program;
use firstflight_resolve::{PROGRAM, run};

fn main() -> ExitCode {
    program::execute(PROGRAM, run)
}
