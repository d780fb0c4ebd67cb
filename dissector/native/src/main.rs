//! `firstflight-dissect`: the native program behind `firstflight dissect`.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use firstflight_dissect::{args::Args, dissect};

/// Connections are many small allocations, made and freed in any order. Its second version gives memory back after
/// 10 ms, the third after a second: a quarter more resident, for no less time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit status of wrong use.
const WRONG_USE: u8 = 2;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => match wrong_use(&error) {
            Some(sentence) => {
                eprintln!("firstflight-dissect: {sentence}");
                return ExitCode::from(WRONG_USE);
            }
            None => error.exit(),
        },
    };
    match dissect::run(&args) {
        Ok(status) => ExitCode::from(status),
        // The reader of standard output has gone (`| head`): nothing is wrong here.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("firstflight-dissect: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

/// What is wrong with the command line, in one sentence; `None` if help or the version was asked for.
fn wrong_use(error: &clap::Error) -> Option<String> {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return None;
    }
    let said = error.to_string();
    // Behind an empty line come hints and the usage.
    let first = said.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first
        .trim_start_matches("error: ")
        .split_whitespace()
        .collect();
    Some(format!(
        "{} (see firstflight dissect --help)",
        words.join(" ")
    ))
}
