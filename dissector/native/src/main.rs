//! The program `firstflight-dissect`, which `firstflight dissect` runs.

#![warn(clippy::print_stderr)]

use std::process::ExitCode;

use firstflight_dissect::{args::Args, dissect};
use firstflight_usage::tell;

/// Connections are many small allocations, made and freed in any order. Version 2 of mimalloc returns memory after 10
/// ms, version 3 after a second. Version 3 needs a quarter more resident memory and saves no time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Args = match firstflight_usage::parse("firstflight-dissect", "firstflight dissect") {
        Ok(args) => args,
        Err(status) => return status,
    };
    match dissect::run(&args) {
        Ok(status) => ExitCode::from(status),
        // The reader of standard output closed it (`| head`), which is no error.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            tell!("firstflight-dissect: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
