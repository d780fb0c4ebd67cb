//! Wrong use, which clap tells on several lines, as one sentence.

use clap::error::ErrorKind;

/// Longer words (a whole file given as a contact) are cut to this many characters.
const LONGEST_WORD: usize = 60;

/// What is wrong with the command line; `None` if help or the version was asked for.
pub fn sentence(error: &clap::Error) -> Option<String> {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return None;
    }
    let said = error.to_string();
    let first = said.split("\n\n").next().unwrap_or_default();
    let words: Vec<String> = first
        .trim_start_matches("error: ")
        .split_whitespace()
        .map(shortened)
        .collect();
    Some(format!(
        "{} (see firstflight probe --help)",
        words.join(" ")
    ))
}

fn shortened(word: &str) -> String {
    match word.char_indices().nth(LONGEST_WORD) {
        Some((end, _)) => format!("{}...", &word[..end]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use clap::Parser;

    fn said(arguments: &[&str]) -> Option<String> {
        let error = Options::try_parse_from([&["firstflight-prober"], arguments].concat()).err()?;
        sentence(&error)
    }

    #[test]
    fn wrong_use_is_one_line() {
        let long = "x".repeat(5000);
        for (arguments, expected) in [
            (
                &["--targets", "t", "--rate", "nan"][..],
                "'nan' for '--rate <N>': not a number",
            ),
            (&["--targets", "t", "--nosuch"], "'--nosuch'"),
            (&[], "were not provided: --targets <FILE>"),
            (
                &["--targets", "t", "--format", "x"],
                "[possible values: jsonl]",
            ),
            (
                &["--targets", "t", "--contact", &long],
                "must not be longer than 500 bytes",
            ),
            (&["--targets", "t", "--contact", "a\nb"], "must be one line"),
        ] {
            let sentence = said(arguments).unwrap();
            assert!(sentence.contains(expected), "{sentence}");
            assert!(sentence.ends_with(" (see firstflight probe --help)"));
            assert!(
                !sentence.contains('\n') && sentence.len() < 300,
                "{sentence}"
            );
        }
        assert_eq!(said(&["--help"]), None);
        assert_eq!(said(&["--version"]), None);
    }
}
