//! The limiting factor of a run's speed, over spans of time.

use std::fmt;
use std::time::{Duration, Instant};

use super::Now;

/// Why a run does not start more probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The rate of new probes or queries.
    Rate,
    /// Every remaining target waits for a limit per address or network.
    Networks,
    /// Every remaining target is in a paused network.
    Paused,
    /// The number of probes in flight is at the maximum.
    InFlight,
    /// Planned probes wait for their time.
    Planned,
    /// A resolver is being checked, because no query was answered.
    Resolver,
    /// The list or the pipe has no more input at the moment.
    Input,
    /// Records arrive faster than they are written.
    Writing,
    /// All targets have started. Only probes in flight remain.
    LastAnswers,
    /// More could be sent, but the machine is too slow.
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

    /// Returns the name in reports and files.
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

/// The time between two reports: how much was done, and how long each limit applied.
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

    /// Notes a state, which has applied since the last call. At the end of a span, returns the work per
    /// second and the limit that applied longest, and starts the next span.
    pub fn note(&mut self, now: Instant, state: &Now) -> Option<(f64, Limit)> {
        // The work of earlier runs does not count.
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
