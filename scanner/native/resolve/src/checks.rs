//! Whether resolvers answer at all: asked before the first name, and again after a long silence.

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Other resolvers have not answered yet.
    Open,
    /// At least one answers.
    Up,
    /// None does: the last one, and why.
    Down(usize, String),
}

/// The checks of a run.
#[derive(Debug)]
pub struct Checks {
    /// Resolvers that are being checked.
    open: usize,
    answered: bool,
    /// So many questions in a row without an answer lead to a check.
    silence: u32,
    timeout_s: f64,
}

impl Checks {
    /// `silence`: so many questions in a row without an answer lead to a check; `timeout_s`: for messages.
    pub fn new(silence: u32, timeout_s: f64) -> Checks {
        Checks {
            open: 0,
            answered: false,
            silence,
            timeout_s,
        }
    }

    /// Begins to check so many resolvers.
    pub fn begin(&mut self, resolvers: usize) {
        (self.open, self.answered) = (resolvers, false);
    }

    /// Returns whether no name may begin, because nobody has answered yet.
    pub fn is_open(&self) -> bool {
        self.open > 0 && !self.answered
    }

    /// Returns whether a check is due after so many questions without an answer.
    pub fn are_due(&self, silence: u32) -> bool {
        self.open == 0 && silence >= self.silence
    }

    /// Takes the result of one resolver: `why` it does not answer, empty for a timeout.
    pub fn result(&mut self, resolver: usize, why: Option<String>) -> Verdict {
        self.open = self.open.saturating_sub(1);
        match why {
            None => {
                self.answered = true;
                Verdict::Up
            }
            Some(_) if self.answered || self.open > 0 => Verdict::Open,
            Some(why) if why.is_empty() => {
                Verdict::Down(resolver, format!("no answer within {} s", self.timeout_s))
            }
            Some(why) => Verdict::Down(resolver, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_resolver_that_answers_is_enough() {
        let mut checks = Checks::new(50, 3.0);
        checks.begin(2);
        assert!(checks.is_open());
        assert_eq!(checks.result(0, Some(String::new())), Verdict::Open);
        assert_eq!(checks.result(1, None), Verdict::Up);
        assert!(!checks.is_open() && !checks.are_due(49) && checks.are_due(50));
        checks.begin(2);
        assert!(!checks.are_due(50));
        assert_eq!(checks.result(1, None), Verdict::Up);
        assert!(
            !checks.is_open(),
            "names go on while the other is waited for"
        );
        assert_eq!(checks.result(0, Some("refused".into())), Verdict::Open);
        checks.begin(2);
        assert_eq!(checks.result(1, Some("refused".into())), Verdict::Open);
        let down = Verdict::Down(0, "no answer within 3 s".into());
        assert_eq!(checks.result(0, Some(String::new())), down);
    }
}
