//! What limits the speed of a run, over spans of time.

use std::fmt;
use std::time::{Duration, Instant};

use super::Now;

/// What a run waits for before it begins more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The rate of new probes or queries.
    Rate,
    /// Every target that is left waits for the share of its address or network.
    Networks,
    /// Every target that is left is in a network that is paused.
    Paused,
    /// As many are in flight as may be.
    InFlight,
    /// Planned probes wait for their time.
    Planned,
    /// A resolver is checked, because nothing was answered.
    Resolver,
    /// The list, or the pipe, has nothing more at the moment.
    Input,
    /// Records are written more slowly than they come.
    Writing,
    /// All has begun; what is in flight ends.
    LastAnswers,
    /// More could be sent: the machine has no time for it.
    Machine,
    /// The opt-out list is not confirmed.
    Unconfirmed,
}

impl Limit {
    pub const ALL: [Limit; 11] = [
        Limit::Rate,
        Limit::Networks,
        Limit::Paused,
        Limit::InFlight,
        Limit::Planned,
        Limit::Resolver,
        Limit::Input,
        Limit::Writing,
        Limit::LastAnswers,
        Limit::Machine,
        Limit::Unconfirmed,
    ];

    /// Returns its name for people and files.
    pub fn words(self) -> &'static str {
        match self {
            Limit::Rate => "rate",
            Limit::Networks => "limits per address and network",
            Limit::Paused => "paused networks",
            Limit::InFlight => "number in flight",
            Limit::Planned => "planned times",
            Limit::Resolver => "check of a resolver",
            Limit::Input => "input",
            Limit::Writing => "writing",
            Limit::LastAnswers => "last answers",
            Limit::Machine => "this machine",
            Limit::Unconfirmed => "confirmation of the opt-out list",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// Time from one report to the next: how much was done, and how long each limit held.
pub struct Span {
    pause: Duration,
    begun: Instant,
    done_before: Option<u64>,
    last: Instant,
    held: [Duration; Limit::ALL.len()],
}

impl Span {
    pub fn new(pause: Duration, now: Instant) -> Span {
        Span {
            pause,
            begun: now,
            done_before: None,
            last: now,
            held: [Duration::ZERO; Limit::ALL.len()],
        }
    }

    /// Takes note of a state, which holds since the last one. If the span is over: what was done per second,
    /// and the limit that held longest; then the next span begins.
    pub fn note(&mut self, now: Instant, state: &Now) -> Option<(f64, Limit)> {
        // What earlier runs did does not count.
        let before = *self.done_before.get_or_insert(state.done);
        self.held[state.limit as usize] += now.saturating_duration_since(self.last);
        self.last = now;
        let passed = now.saturating_duration_since(self.begun);
        if passed < self.pause {
            return None;
        }
        let per_s = state.done.saturating_sub(before) as f64 / passed.as_secs_f64();
        let longest = Limit::ALL
            .into_iter()
            .max_by_key(|limit| (self.held[*limit as usize], *limit == state.limit));
        *self = Span::new(self.pause, now);
        self.done_before = Some(state.done);
        Some((per_s, longest.unwrap_or(state.limit)))
    }
}
