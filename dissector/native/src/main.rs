//! `firstflight-dissect`: the native program behind `firstflight dissect`.

#![warn(clippy::print_stderr)]

use std::process::ExitCode;

use firstflight_dissect::{args::Args, dissect};
use firstflight_usage::tell;

/// Connections are many small allocations, made and freed in any order. Its second version gives memory back
/// after 10 ms, the third after a second: a quarter more resident, for no less time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Args = match firstflight_usage::parse("firstflight-dissect", "firstflight dissect") {
        Ok(args) => args,
        Err(status) => return status,
    };
    match dissect::run(&args) {
        Ok(status) => ExitCode::from(status),
        // The reader of standard output has closed it (`| head`): this is no error.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            tell!("firstflight-dissect: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
