//! What ends a run early: one sentence for people and an exit status.

use std::fmt;

/// The sentence says what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Wrong use or configuration; nothing was sent.
    Usage(String),
    /// Unreadable input; what was recorded before is kept.
    Input(String),
    /// Records cannot be written any more; those written before are kept.
    Output(String),
    /// A defect of this program: the counts do not add up.
    Accounting(String),
}

impl Failure {
    /// Exit status as in docs/interfaces.md.
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
