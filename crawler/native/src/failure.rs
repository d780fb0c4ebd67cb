//! Reasons for failures, each one sentence, with their exit status (docs/interfaces.md).

use std::fmt;
use std::io;
use std::path::Path;

use firstflight_usage::reason;

#[derive(Debug)]
pub enum Failure {
    /// Wrong usage: exit status 2.
    Use(String),
    /// A table cannot be read or used, or a database cannot be written: exit status 3.
    Input(String),
}

impl Failure {
    pub fn unopened(path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        Self::Input(format!(
            "cannot read the routing table {path}: {}",
            reason(error)
        ))
    }

    pub fn unwritten(path: &Path, error: &io::Error) -> Self {
        Self::Input(format!(
            "cannot write {}: {}",
            path.display(),
            reason(error)
        ))
    }

    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Use(_) => 2,
            Self::Input(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The sentence is a single line, even with control characters in a file name.
            Self::Use(sentence) | Self::Input(sentence) => {
                f.write_str(&sentence.replace(char::is_control, "?"))
            }
        }
    }
}
