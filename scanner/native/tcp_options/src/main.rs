//! `firstflight-tcp-options`: finds which TCP options servers agree to.

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

use firstflight_core::program;

fn main() -> ExitCode {
    program::execute("firstflight tcp-options", setup::run)
}
