//! How the native programs are used: wrong use, which clap tells on several lines, is one sentence; whether standard output was
//! closed.

#![warn(clippy::print_stderr)]

pub mod stdout;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

/// Exit status of wrong use.
const WRONG_USE: u8 = 2;
/// Longer words (a whole file given as a contact) are cut to this many characters.
const LONGEST_WORD: usize = 60;
/// Help wraps at the terminal's width, but no later than at this column.
const WIDEST_HELP: usize = 100;

/// Prints a line on standard error. Unlike `eprintln!` it does not end the program if nobody can read the line: a log on a full
/// disk must not cost records.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => {
        $crate::write_line(format_args!($($words)*))
    };
}

/// What [`tell!`] calls.
pub fn write_line(line: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Reads the arguments of this process. What is wrong with them is printed on standard error, after `name` (the program's) and with
/// `command` (what people type) to ask for help; what comes back then is the exit status. Help and version are printed, and
/// end the process.
pub fn parse<P: Parser>(name: &str, command: &str) -> Result<P, ExitCode> {
    parse_from(std::env::args_os(), name, command)
}

/// As [`parse`], with these arguments; the first one is the program.
pub fn parse_from<P: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    name: &str,
    command: &str,
) -> Result<P, ExitCode> {
    let parsed = P::command()
        .max_term_width(WIDEST_HELP)
        .try_get_matches_from(arguments)
        .and_then(|matches| P::from_arg_matches(&matches));
    parsed.map_err(|error| match sentence(&error, command) {
        Some(sentence) => {
            tell!("{name}: {sentence}");
            ExitCode::from(WRONG_USE)
        }
        None => error.exit(),
    })
}

/// What is wrong with a command line; `None` if help or the version was asked for.
pub fn sentence(error: &clap::Error, command: &str) -> Option<String> {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return None;
    }
    let message = error.to_string();
    // Behind an empty line come hints and the usage.
    let first = message.split("\n\n").next().unwrap_or_default();
    let words: Vec<String> = first
        .trim_start_matches("error: ")
        .split_whitespace()
        .map(shortened)
        .collect();
    Some(format!("{} (see {command} --help)", words.join(" ")))
}

/// The system's words for an error, without its number.
pub fn reason(error: &io::Error) -> String {
    let message = error.to_string();
    match message.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => message,
    }
}

fn shortened(word: &str) -> String {
    match word.char_indices().nth(LONGEST_WORD) {
        Some((end, _)) => format!("{}...", &word[..end]),
        None => word.to_owned(),
    }
}
