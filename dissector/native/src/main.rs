//! `firstflight-dissect`: the native program behind `firstflight dissect`.

use std::process::ExitCode;

use clap::Parser;
use firstflight_dissect::{args::Args, dissect};

/// Connections are many small allocations, made and freed in any order.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match dissect::run(&Args::parse()) {
        Ok(status) => ExitCode::from(status),
        // The reader of standard output has gone (`| head`): nothing is wrong here.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("firstflight-dissect: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
