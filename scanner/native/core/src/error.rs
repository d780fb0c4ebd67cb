//! Errors that stop a run early: one sentence for the user, and an exit status.

use std::fmt;

/// The sentence states the problem, the location, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Wrong usage or configuration. Nothing was sent.
    Usage(String),
    /// Unreadable input. Earlier records are kept.
    Input(String),
    /// Records can no longer be written. Earlier records are kept.
    Output(String),
    /// A defect of this program: the counts do not add up.
    Accounting(String),
}

impl Failure {
    /// Returns the exit status, as in docs/interfaces.md.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Input(_) | Failure::Output(_) | Failure::Accounting(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(m) | Failure::Input(m) | Failure::Output(m) | Failure::Accounting(m)) =
            self;
        f.write_str(m)
    }
}

impl std::error::Error for Failure {}
