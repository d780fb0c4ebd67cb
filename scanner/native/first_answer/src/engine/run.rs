//! The run: one thread that receives, ends and sends probes, round by round, until all targets are done.

use std::time::Duration;

use super::{Engine, RunResult};
use crate::table::Phase;
use firstflight_core::clock::Mono;
use firstflight_core::signals::Signals;

/// Time from one round to the next when much is sent, so that a round has several packets to deal with.
const PAUSE: Mono = 2_000_000;

/// Longest time without looking at the clock.
const LONGEST_WAIT: Mono = 100_000_000;

impl Engine {
    /// Works until all is done, or a signal came and the open probes have ended (a second one: at once).
    pub fn run(mut self, signals: &Signals) -> RunResult {
        let mut failed = false;
        while !self.is_done() {
            self.stopping |= signals.stop();
            failed = self.writer.has_failed() || self.skips.failure().is_some();
            if failed || signals.stop_now() {
                self.stopping = true;
                break;
            }
            self.read_feed();
            let drained = self.receive_all();
            self.end_what_is_due(drained);
            self.send_all();
            self.writer.submit();
            let (targets, in_flight) = (self.backlog.len(), self.table.len());
            self.progress
                .tick(self.counts.records(), targets, in_flight);
            self.wait();
        }
        let interrupted = self.stopping && !failed && self.broken.is_none();
        self.close_answered();
        self.skip_all();
        self.counts.not_done += self.backlog.len() as u64;
        for handle in self.table.handles() {
            match self.table.get(handle).map(|flight| flight.phase) {
                Some(Phase::Cooldown) => self.finish(handle),
                _ => self.abandon(handle),
            }
        }
        self.progress.finish();
        let failure = self.broken.or(self.skips.failure());
        let written = self.writer.finish();
        RunResult {
            counts: self.counts,
            highest: self.pacer.highest(),
            interrupted,
            written: match failure {
                None => written,
                Some(failure) => written.and(Err(failure)),
            },
        }
    }

    fn is_done(&self) -> bool {
        let nothing_new = if self.listed {
            self.backlog.len() == 0
        } else {
            self.planned.ended && self.planned.is_empty()
        };
        (self.stopping || nothing_new) && self.table.len() == 0
    }

    /// Sends what may be sent now.
    fn send_all(&mut self) {
        for port in 0..self.outgoing.len() {
            self.send_outgoing(port, !self.in_bulk());
        }
        self.send_again();
        self.send_planned();
        self.send_new();
    }

    /// The run is cut short: servers that have answered are told goodbye now, as far as the ceiling lets us.
    fn close_answered(&mut self) {
        let now = self.clock.now();
        for handle in self.table.handles() {
            let open = self
                .table
                .get(handle)
                .is_some_and(|f| f.phase == Phase::Open && f.exchange.is_answered());
            if open {
                self.end(handle, now);
            }
        }
        for port in 0..self.outgoing.len() {
            self.send_outgoing(port, true);
        }
    }

    /// Sleeps until something is due or comes, at least a little.
    fn wait(&mut self) {
        let now = self.clock.now();
        if self.in_bulk() {
            // One round for several packets is cheaper than one for each; what comes meanwhile has
            // its stamp from the kernel.
            if now < self.round + PAUSE {
                std::thread::sleep(Duration::from_nanos(self.round + PAUSE - now));
            }
            self.round = self.clock.now();
            return;
        }
        let left = self.next_due(now).saturating_sub(self.clock.now());
        if left > 0 {
            self.poll.wait(left);
        }
    }

    /// When the next round is to begin if nothing comes before.
    fn next_due(&self, now: Mono) -> Mono {
        let can_send = !self.stopping && self.room_in_flight() > 0;
        let next_new = self
            .backlog
            .next_at()
            .filter(|_| can_send)
            .map(|at| at.max(self.pacer.next_new()));
        let busy = self.outgoing.iter().any(|out| !out.is_empty()) || !self.again.is_empty();
        let due = [
            next_new,
            self.windows.next(),
            self.settles.next(),
            self.cooldowns.next(),
            self.planned.next(),
            busy.then_some(now + 1_000_000),
            Some(now + LONGEST_WAIT),
        ];
        due.into_iter().flatten().min().unwrap_or(now)
    }
}
