//! A run's loop.

use std::time::Duration;

use firstflight_core::Failure;
use firstflight_core::clock::{Mono, wall};
use firstflight_core::conclusion::RunResult;
use firstflight_core::progress::Progress;
use firstflight_core::receive::Event;
use firstflight_core::run::{self, FinishedRun, State};
use firstflight_core::signals::Signals;

use super::Engine;
use super::gather::{self, PAUSE, Wake};
use super::sender::Reports;
use crate::counts::Counts;
use crate::finished::FinishedProbe;

/// Shortest sleep while datagrams are queued.
const QUEUED_WAIT: Mono = 1_000_000;

/// Maximum time that records wait, so that the writing thread wakes up rarely.
const SUBMIT_GAP: Mono = 300_000_000;

impl Engine {
    /// Runs until all targets are done. After a signal, runs until the open probes are complete. A second signal stops
    /// the run immediately.
    pub fn run(self, signals: &Signals) -> RunResult<Counts> {
        run::run(self, signals)
    }

    /// Returns whether there is a list and all its probes have started.
    fn list_has_begun(&self) -> bool {
        self.listed && self.backlog.is_empty()
    }

    /// Returns how many more probes may be in flight.
    fn room(&self) -> usize {
        if self.writer.is_behind() {
            return 0;
        }
        self.probes.room()
    }

    /// Reads all events. Returns the time up to which all events are read.
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

    /// Sends all datagrams that may be sent now.
    fn send(&mut self) {
        let (at_once, behind) = (!self.pace.in_bulk(), self.writer.is_behind());
        // After a list's last target, planned probes are not sent. Otherwise, frequent planned probes could keep
        // the run from finishing.
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
        self.backlog.mark_sent(self.clock);
    }

    /// Passes finished probes to the writer.
    fn write_finished(&mut self) {
        let ports = self.sender.egress().ports();
        for mut probe in self.probes.finished() {
            if let Some(sent) = &mut probe.sent {
                sent.src_ip = sent.src_ip.or_else(|| ports.route(sent.to));
            }
            self.writer.push(probe);
        }
    }

    /// Passes records to the writing thread, at low rates several at a time.
    fn submit(&mut self) {
        let due = self.pace.in_bulk() || self.resumed_at >= self.submitted + SUBMIT_GAP;
        if due && self.writer.submit() {
            self.submitted = self.resumed_at;
        }
    }

    /// Returns the state that determines the next wake-up.
    fn wake_up(&self, now: Mono) -> gather::State {
        let together = self.pace.together.min(self.backlog.len() as u64);
        let can_send = !self.stopping && self.room() > 0;
        let next_new = self
            .backlog
            .next_at()
            .filter(|_| can_send)
            .map(|at| at.max(self.sender.egress().next_together(together)));
        let sendable = self.sender.egress().next_other().max(now + QUEUED_WAIT);
        gather::State {
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

impl run::Engine for Engine {
    type Counts = Counts;
    type Record = FinishedProbe;

    fn read_feed(&mut self) -> bool {
        self.schedule.read(self.backlog.groups_mut())
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.probes.stop();
    }

    fn is_stopping(&self) -> bool {
        self.stopping
    }

    fn is_done(&self) -> bool {
        let all_begun = self.list_has_begun() || !self.listed && self.schedule.is_finished();
        (self.stopping || all_begun) && self.probes.len() == 0
    }

    fn pass(&mut self) {
        let drained = self.receive();
        self.probes.expire(drained, self.backlog.groups());
        self.send();
        self.write_finished();
        self.submit();
    }

    /// Sleeps until an action is due, or until an event arrives, unless it is better to gather events.
    fn wait(&mut self) {
        let now = self.clock.now();
        // At high rates, a pass for several packets is cheaper than a pass for each packet.
        let wake = if self.pace.in_bulk() {
            Wake::At(self.resumed_at + PAUSE)
        } else {
            gather::next(&self.wake_up(now))
        };
        match wake {
            Wake::At(at) if at > now => std::thread::sleep(Duration::from_nanos(at - now)),
            Wake::OnArrival(at) if at > now => self.receiver.wait(at - now),
            Wake::At(_) | Wake::OnArrival(_) => {}
        }
        self.resumed_at = self.clock.now();
    }

    fn state(&self) -> State {
        let egress = self.sender.egress();
        State {
            now: self.clock.now(),
            done: self.probes.counts().tally.records(),
            left: self.backlog.len(),
            in_flight: self.probes.len(),
            is_ending: self.stopping || self.list_has_begun(),
            is_behind: self.writer.is_behind(),
            trust: egress.policy().trust(),
            room: self.probes.room(),
            next_target: self.backlog.next_at(),
            next_new: egress.next_new(),
        }
    }

    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    fn has_failed(&self) -> bool {
        self.writer.has_failed() || self.schedule.write_failure().is_some()
    }

    fn broken(&self) -> Option<Failure> {
        self.schedule.broken()
    }

    /// If the run was interrupted, closes answered connections within the rate limit.
    fn end(mut self) -> FinishedRun<Counts, FinishedProbe> {
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
        FinishedRun {
            counts,
            highest: self.sender.egress().highest(),
            lists: self.sender.egress().policy().followed(),
            progress: self.progress,
            writer: self.writer,
            failure: self.schedule.broken().or(self.schedule.write_failure()),
        }
    }
}

#[cfg(test)]
mod tests;
