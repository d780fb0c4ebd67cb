//! Checks whether any resolver answers: before the first name, and after many unanswered questions in a row.

/// A check's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The check still waits for other resolvers.
    Open,
    /// At least one resolver answers.
    Up,
    /// No resolver answers: the last resolver, and the reason.
    Down(usize, String),
}

/// A run's checks.
#[derive(Debug)]
pub struct Checks {
    /// Resolvers whose result is pending.
    open: usize,
    answered: bool,
    /// Number of consecutive unanswered questions that triggers a check.
    silence: u32,
    timeout_s: f64,
}

impl Checks {
    /// `silence`: number of consecutive unanswered questions that triggers a check. `timeout_s`: for
    /// messages.
    pub fn new(silence: u32, timeout_s: f64) -> Checks {
        Checks {
            open: 0,
            answered: false,
            silence,
            timeout_s,
        }
    }

    /// Starts a check of this number of resolvers.
    pub fn begin(&mut self, resolvers: usize) {
        (self.open, self.answered) = (resolvers, false);
    }

    /// Returns whether new names must wait because no resolver has answered yet.
    pub fn is_open(&self) -> bool {
        self.open > 0 && !self.answered
    }

    /// Returns whether a check is due after this number of unanswered questions.
    pub fn are_due(&self, silence: u32) -> bool {
        self.open == 0 && silence >= self.silence
    }

    /// Records a resolver's result. `why` is the reason for a missing answer, empty for a timeout.
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
