//! The interface of an engine's closed list of outcomes.

use std::fmt::{Debug, Display};

/// An outcome of an engine's closed list.
pub trait Outcome: Copy + Eq + Debug + Display + Send + 'static {
    /// All outcomes, in the order of definition.
    const ALL: &'static [Self];
    /// The address may not be contacted; nothing was sent.
    const BLOCKED: Self;
    /// The system refused to send; nothing was sent.
    const SEND_FAILED: Self;

    /// Returns the name in records.
    fn name(self) -> &'static str;

    /// Returns the position in [`Self::ALL`].
    fn index(self) -> usize;

    /// Returns the outcome with this name.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|outcome| outcome.name() == name)
    }

    /// Returns whether something was sent to targets with this outcome.
    fn was_sent(self) -> bool {
        self != Self::BLOCKED && self != Self::SEND_FAILED
    }
}

/// Declares an engine's closed list of outcomes, each with the name in records, in the order of definition.
/// Every list includes `Blocked` and `SendFailed`.
#[macro_export]
macro_rules! outcomes {
    ($(#[$about:meta])* pub enum $name:ident { $($outcome:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($outcome),+
        }

        impl $crate::records::Outcome for $name {
            const ALL: &'static [$name] = &[$($name::$outcome),+];
            const BLOCKED: $name = $name::Blocked;
            const SEND_FAILED: $name = $name::SendFailed;

            fn name(self) -> &'static str {
                match self {
                    $($name::$outcome => $word),+
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::records::Outcome::name(*self))
            }
        }
    };
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    crate::outcomes! {
        /// The shortest list of outcomes.
        pub enum Word {
            Answered = "answered",
            Blocked = "blocked",
            SendFailed = "send_failed",
        }
    }

    #[test]
    fn names_lead_back_to_outcomes() {
        for word in Word::ALL {
            assert_eq!(Word::from_name(word.name()), Some(*word));
            assert_eq!(Word::ALL[word.index()], *word);
            assert_eq!(word.to_string(), word.name());
        }
        assert_eq!(Word::from_name("lost"), None);
        assert!(Word::Answered.was_sent() && !Word::Blocked.was_sent());
    }
}
