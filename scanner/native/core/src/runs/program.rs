//! The program around an engine: command line in, exit status out.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use firstflight_usage::tell;

use crate::Failure;

/// Parses the arguments of this process and executes them with `run`, which returns the exit status. Reports
/// an error as one sentence on standard error, with the prefix `command`, the command that users type.
pub fn execute<O: Parser>(command: &str, run: impl FnOnce(&O) -> Result<u8, Failure>) -> ExitCode {
    execute_from(std::env::args_os(), command, run)
}

/// Like [`execute`], with the given arguments. The first argument is the program.
pub fn execute_from<O: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    command: &str,
    run: impl FnOnce(&O) -> Result<u8, Failure>,
) -> ExitCode {
    let options: O = match firstflight_usage::parse_from(arguments, command, command) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            tell!("{command}: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Options {
        #[arg(long)]
        rate: u8,
    }

    #[test]
    fn statuses_are_those_of_the_run_or_of_what_is_wrong() {
        let cases: [(&[&str], Result<u8, Failure>, u8); 4] = [
            (&["x", "--rate", "7"], Ok(130), 130),
            (&["x", "--rate", "7"], Err(Failure::Usage("no".into())), 2),
            (&["x", "--rate", "7"], Err(Failure::Input("no".into())), 3),
            (&["x", "--rate", "fast"], Ok(0), 2),
        ];
        for (words, result, status) in cases {
            let arguments = words.iter().map(OsString::from);
            let found = execute_from(arguments, "x", |options: &Options| {
                assert_eq!(options.rate, 7);
                result
            });
            assert_eq!(
                format!("{found:?}"),
                format!("{:?}", ExitCode::from(status))
            );
        }
    }
}
