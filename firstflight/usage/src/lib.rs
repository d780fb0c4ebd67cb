//! Command lines of the native programs: reports wrong usage as one sentence instead of clap's several lines, and
//! detects a closed standard output.

#![warn(clippy::print_stderr)]

pub mod stdout;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Exit status for wrong usage.
const WRONG_USE: u8 = 2;
/// Longer words (a whole file given as a contact) are truncated to this many characters.
const LONGEST_WORD: usize = 60;
/// Help wraps at the terminal's width, but at this column at the latest.
const WIDEST_HELP: usize = 100;

/// Prints a line on standard error. Unlike `eprintln!`, it does not panic if the line cannot be written: a log on a
/// full disk must not cost records.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => {
        $crate::write_line(format_args!($($words)*))
    };
}

/// The function behind [`tell!`].
pub fn write_line(line: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Parses the arguments of this process. On an error, prints the fault on standard error and returns the exit status.
/// `name` is the program's name, before the message; `command` is the command that users type to get help. Help and
/// version are printed and exit the process.
pub fn parse<P: Parser>(name: &str, command: &str) -> Result<P, ExitCode> {
    parse_from(std::env::args_os(), name, command)
}

/// Like [`parse`], with the given arguments. The first argument is the program.
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

/// Describes the fault in a command line, with a suggestion. `None` if the user requested help or the version.
pub fn sentence(error: &clap::Error, command: &str) -> Option<String> {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return None;
    }
    let message = error.to_string();
    // Hints and the usage follow an empty line.
    let first = message.split("\n\n").next().unwrap_or_default();
    let words: Vec<String> = first
        .trim_start_matches("error: ")
        .split_whitespace()
        .map(shortened)
        .collect();
    let mut sentence = words.join(" ");
    if let Some(meant) = suggestion(error) {
        sentence = format!("{sentence}: did you mean {meant}?");
    }
    Some(format!("{sentence} (see {command} --help)"))
}

/// The option, value or command with a name similar to the mistyped one, if any.
fn suggestion(error: &clap::Error) -> Option<&str> {
    let kinds = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
        ContextKind::SuggestedSubcommand,
    ];
    kinds.iter().find_map(|kind| match error.get(*kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        ContextValue::Strings(texts) => texts.first().map(String::as_str),
        _ => None,
    })
}

/// The system's message for an error, without the number.
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

#[cfg(test)]
mod tests {
    use clap::{Parser, ValueEnum};

    use super::*;

    #[derive(Clone, ValueEnum)]
    enum Check {
        Signature,
        Chain,
    }

    #[derive(Parser)]
    struct Options {
        #[arg(long)]
        contact: Option<String>,
        #[arg(long, value_enum)]
        verify: Option<Check>,
    }

    #[test]
    fn a_mistyped_word_gets_the_nearest_one() {
        for (words, expected) in [
            (
                &["--contct", "a"][..],
                "unexpected argument '--contct' found: did you mean --contact? (see x --help)",
            ),
            (
                &["--verify", "chan"],
                "invalid value 'chan' for '--verify <VERIFY>' [possible values: signature, chain]: did you mean chain? \
                 (see x --help)",
            ),
            (
                &["--zzz"],
                "unexpected argument '--zzz' found (see x --help)",
            ),
        ] {
            let error = Options::try_parse_from([&["x"], words].concat()).err();
            assert_eq!(sentence(&error.unwrap(), "x").as_deref(), Some(expected));
        }
    }
}
