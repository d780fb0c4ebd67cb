//! The loop of a run over a list of targets. One thread receives answers, finishes probes and starts new ones
//! until all targets are done.

use crate::Failure;
use crate::clock::Mono;
use crate::limits::policy::{Followed, Trust};
use crate::output::progress::{Limit, Now, Progress};
use crate::output::records::{Rows, Writer};
use crate::runs::conclusion::{Counted, RunResult};
use crate::runs::signals::Signals;

/// The functions of an engine that the loop calls.
pub trait Engine: Sized {
    /// The engine's counts.
    type Counts: Counted;
    /// The records for the writing thread.
    type Record: Rows;

    /// Executes the commands received from the feed. Returns whether the run has to stop.
    fn read_feed(&mut self) -> bool;

    /// Starts no new probes from now on.
    fn stop(&mut self);

    /// Returns whether the engine starts no new probes.
    fn is_stopping(&self) -> bool;

    /// Returns whether there is no probe to start or to finish.
    fn is_done(&self) -> bool;

    /// Does the work that is due: reads arrivals, finishes probes, sends datagrams, passes on records.
    fn pass(&mut self);

    /// Sleeps until work is due or a datagram arrives.
    fn wait(&mut self);

    /// Returns the state of the run.
    fn state(&self) -> State;

    /// Returns the progress report.
    fn progress(&mut self) -> &mut Progress;

    /// Returns whether records, or reports of planned probes, can no longer be written.
    fn has_failed(&self) -> bool;

    /// Returns the fault of the feed, if any.
    fn broken(&self) -> Option<Failure>;

    /// Gives up all open probes, and returns the parts of the engine.
    fn end(self) -> FinishedRun<Self::Counts, Self::Record>;
}

/// A finished engine's parts.
pub struct FinishedRun<C, R: Rows> {
    pub counts: C,
    /// Most new targets and most datagrams in any second.
    pub highest: (u64, u64),
    pub lists: Followed,
    pub progress: Progress,
    pub writer: Writer<R>,
    /// Why the run failed, other than an error in writing records.
    pub failure: Option<Failure>,
}

/// A run's state.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub now: Mono,
    /// Number of records.
    pub done: u64,
    /// Targets of the list that have not started.
    pub left: usize,
    pub in_flight: usize,
    /// No more targets will start.
    pub is_ending: bool,
    /// The writing thread is too slow.
    pub is_behind: bool,
    pub trust: Trust,
    /// How many more probes may be in flight.
    pub room: usize,
    /// When the limits per address and network permit the next target; `None`: all targets are paused.
    pub next_target: Option<Mono>,
    /// When the rate permits the next new probe.
    pub next_new: Mono,
}

impl State {
    /// Returns why no more targets start.
    pub fn limit(&self) -> Limit {
        match self.next_target {
            _ if self.is_behind => Limit::Writing,
            _ if self.is_ending => Limit::LastAnswers,
            _ if self.left == 0 => Limit::Planned,
            _ if self.trust < Trust::All => Limit::Unconfirmed,
            _ if self.room == 0 => Limit::InFlight,
            None => Limit::Paused,
            Some(at) if at > self.now => Limit::Networks,
            Some(_) if self.next_new > self.now => Limit::Rate,
            Some(_) => Limit::Machine,
        }
    }
}

/// Runs until all targets are done. After a first signal, only finishes the open probes; after a second one,
/// stops immediately.
pub fn run<E: Engine>(mut engine: E, signals: &Signals) -> RunResult<E::Counts> {
    let mut failed = false;
    while !engine.is_done() {
        if engine.read_feed() | signals.stop() {
            engine.stop();
        }
        failed = engine.has_failed();
        if failed || signals.stop_now() {
            engine.stop();
            break;
        }
        engine.pass();
        let state = engine.state();
        engine.progress().tick(&Now {
            done: state.done,
            left: Some(state.left as u64),
            in_flight: state.in_flight,
            limit: state.limit(),
        });
        engine.wait();
    }
    let interrupted = engine.is_stopping() && !failed && engine.broken().is_none();
    finish(engine, interrupted)
}

/// Finishes a run, and waits until all records are written.
pub fn finish<E: Engine>(engine: E, interrupted: bool) -> RunResult<E::Counts> {
    let ended = engine.end();
    ended.progress.finish();
    let written = ended.writer.finish();
    RunResult {
        counts: ended.counts,
        highest: ended.highest,
        lists: ended.lists,
        interrupted,
        written: match ended.failure {
            None => written,
            Some(failure) => written.and(Err(failure)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_is_the_limit() {
        let free = State {
            now: 100,
            done: 0,
            left: 1,
            in_flight: 0,
            is_ending: false,
            is_behind: false,
            trust: Trust::All,
            room: 1,
            next_target: Some(0),
            next_new: 0,
        };
        let rate = State {
            next_new: 101,
            ..free
        };
        let networks = State {
            next_target: Some(101),
            ..rate
        };
        let paused = State {
            next_target: None,
            ..rate
        };
        let full = State { room: 0, ..paused };
        let unconfirmed = State {
            trust: Trust::None,
            ..full
        };
        let planned = State {
            left: 0,
            ..unconfirmed
        };
        let ending = State {
            is_ending: true,
            ..planned
        };
        let behind = State {
            is_behind: true,
            ..ending
        };
        for (state, limit) in [
            (free, Limit::Machine),
            (rate, Limit::Rate),
            (networks, Limit::Networks),
            (paused, Limit::Paused),
            (full, Limit::InFlight),
            (unconfirmed, Limit::Unconfirmed),
            (planned, Limit::Planned),
            (ending, Limit::LastAnswers),
            (behind, Limit::Writing),
        ] {
            assert_eq!(state.limit(), limit);
        }
    }
}
