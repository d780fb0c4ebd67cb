//! The loop of a run.

use std::time::Duration;

use firstflight_core::clock::{Mono, wall};
use firstflight_core::conclusion::RunResult;
use firstflight_core::policy::Trust;
use firstflight_core::progress::{Limit, Now};
use firstflight_core::receive::Event;
use firstflight_core::signals::Signals;

use super::Engine;
use super::gather::{self, PAUSE, State, Wake};
use super::sender::Reports;
use crate::counts::Counts;

/// Shortest sleep while something is queued.
const QUEUED_WAIT: Mono = 1_000_000;

/// Records wait for so long at most, so that few wake the writing thread.
const SUBMIT_GAP: Mono = 300_000_000;

impl Engine {
    /// Works until all is done, or a signal came and the open probes have ended (a second one: at once).
    pub fn run(mut self, signals: &Signals) -> RunResult<Counts> {
        let mut failed = false;
        while !self.is_done() {
            if signals.stop() {
                self.stop();
            }
            failed = self.writer.has_failed() || self.schedule.write_failure().is_some();
            if failed || signals.stop_now() {
                self.stop();
                break;
            }
            if self.schedule.read(self.backlog.groups_mut()) {
                self.stop();
            }
            let drained = self.receive();
            self.probes.expire(drained, self.backlog.groups());
            self.send();
            self.write_finished();
            self.submit();
            self.tell();
            self.wait();
        }
        let interrupted = self.stopping && !failed && self.schedule.broken().is_none();
        self.finish(interrupted)
    }

    fn is_done(&self) -> bool {
        let all_begun = self.list_has_begun() || !self.listed && self.schedule.is_finished();
        (self.stopping || all_begun) && self.probes.len() == 0
    }

    /// Returns whether there is a list, and all of it has begun.
    fn list_has_begun(&self) -> bool {
        self.listed && self.backlog.is_empty()
    }

    /// Sends nothing new from now on.
    fn stop(&mut self) {
        self.stopping = true;
        self.probes.stop();
    }

    /// Returns how many more probes may be in flight.
    fn room(&self) -> usize {
        if self.writer.is_behind() {
            return 0;
        }
        self.probes.room()
    }

    /// Reads everything that came. Returns the time up to which that is so.
    pub(super) fn receive(&mut self) -> Mono {
        let (probes, clock) = (&mut self.probes, self.clock);
        let (egress, groups) = (self.sender.egress_mut(), self.backlog.groups());
        let read = &mut self.read;
        *read = 0;
        self.receiver.read_all(|port, event| {
            *read += 1;
            match event {
                Event::Stamp { number, stamp } => {
                    if let Some(key) = egress.stamped(port, number, stamp) {
                        probes.stamped(key, stamp);
                    }
                }
                Event::Icmp { to, icmp, quote } => {
                    probes.icmp(port, to, &icmp, quote, clock.now());
                }
                Event::Datagram {
                    peer,
                    control,
                    bytes,
                } => {
                    let now = clock.now();
                    probes.datagram(port, peer, control, bytes, now, wall, groups);
                }
            }
        })
    }

    /// Sends what may be sent now.
    fn send(&mut self) {
        let (at_once, behind) = (!self.pace.in_bulk(), self.writer.is_behind());
        // Planned probes go beside a list: if they came more often than one lasts, the run would not end.
        let no_more_planned = self.stopping || self.list_has_begun();
        let mut to = Reports {
            probes: &mut self.probes,
            receiver: &mut self.receiver,
        };
        let sender = &mut self.sender;
        sender.send_queued(&mut to, at_once);
        sender.send_next_attempts(self.backlog.groups(), &mut to);
        sender.send_planned(
            &mut self.schedule,
            &mut self.backlog,
            &mut to,
            no_more_planned,
            behind,
        );
        if !self.stopping {
            let room = if behind { 0 } else { to.probes.room() };
            let before = self.backlog.len();
            sender.send_new(&mut self.backlog, room, &mut to);
            if self.backlog.len() < before {
                self.sent_new = self.resumed_at;
            }
        }
        self.backlog.left(self.clock);
    }

    /// Passes finished probes on to the writer.
    fn write_finished(&mut self) {
        let ports = self.sender.egress().ports();
        for mut probe in self.probes.finished() {
            if let Some(sent) = &mut probe.sent {
                sent.src_ip = sent.src_ip.or_else(|| ports.route(sent.to));
            }
            self.writer.push(probe);
        }
    }

    /// Passes records on to the writing thread, below bulk several at a time.
    fn submit(&mut self) {
        let due = self.pace.in_bulk() || self.resumed_at >= self.submitted + SUBMIT_GAP;
        if due && self.writer.submit() {
            self.submitted = self.resumed_at;
        }
    }

    /// Ends the run. If it was cut short, answered connections are closed within the rate limit.
    fn finish(mut self, interrupted: bool) -> RunResult<Counts> {
        let now = self.clock.now();
        self.probes.end_answered(now);
        let mut to = Reports {
            probes: &mut self.probes,
            receiver: &mut self.receiver,
        };
        self.sender.send_queued(&mut to, true);
        self.schedule.skip_all(now);
        self.probes.finish_all();
        self.write_finished();
        let mut counts = self.probes.counts().clone();
        counts.tally.not_done += self.backlog.len() as u64;
        counts.tally.skipped = self.schedule.skipped();
        self.progress.finish();
        let failure = self.schedule.broken().or(self.schedule.write_failure());
        let written = self.writer.finish();
        RunResult {
            counts,
            highest: self.sender.egress().highest(),
            lists: self.sender.egress().policy().followed(),
            interrupted,
            written: match failure {
                None => written,
                Some(failure) => written.and(Err(failure)),
            },
        }
    }

    /// Tells how far the run is.
    fn tell(&mut self) {
        let now = Now {
            done: self.probes.counts().tally.records(),
            left: Some(self.backlog.len() as u64),
            in_flight: self.probes.len(),
            limit: self.limit(),
        };
        self.progress.tick(&now);
    }

    /// Returns why no more probes began.
    fn limit(&self) -> Limit {
        let now = self.clock.now();
        match self.backlog.next_at() {
            _ if self.writer.is_behind() => Limit::Writing,
            _ if self.stopping || self.list_has_begun() => Limit::LastAnswers,
            _ if self.backlog.is_empty() => Limit::Planned,
            _ if self.sender.egress().policy().trust() < Trust::All => Limit::Unconfirmed,
            _ if self.probes.room() == 0 => Limit::InFlight,
            None => Limit::Paused,
            Some(at) if at > now => Limit::Networks,
            Some(_) if self.sender.egress().next_new() > now => Limit::Rate,
            Some(_) => Limit::Machine,
        }
    }

    /// Sleeps until something is due or, if it is not better gathered, comes.
    fn wait(&mut self) {
        let now = self.clock.now();
        // At high rates one pass for several packets is cheaper than one for each.
        let wake = if self.pace.in_bulk() {
            Wake::At(self.resumed_at + PAUSE)
        } else {
            gather::next(&self.state(now))
        };
        match wake {
            Wake::At(at) if at > now => std::thread::sleep(Duration::from_nanos(at - now)),
            Wake::OnArrival(at) if at > now => self.receiver.wait(at - now),
            Wake::At(_) | Wake::OnArrival(_) => {}
        }
        self.resumed_at = self.clock.now();
    }

    /// Returns what the next wake-up depends on.
    fn state(&self, now: Mono) -> State {
        let together = self.pace.together.min(self.backlog.len() as u64);
        let can_send = !self.stopping && self.room() > 0;
        let next_new = self
            .backlog
            .next_at()
            .filter(|_| can_send)
            .map(|at| at.max(self.sender.egress().next_together(together)));
        let sendable = self.sender.egress().next_other().max(now + QUEUED_WAIT);
        State {
            now,
            pass: self.resumed_at,
            read: self.read,
            in_flight: self.probes.len(),
            gap: self.pace.gap(),
            sent_new: self.sent_new,
            next_new,
            planned: self.schedule.next_at(),
            other: self.probes.next_at(sendable),
        }
    }
}

#[cfg(test)]
mod tests;
