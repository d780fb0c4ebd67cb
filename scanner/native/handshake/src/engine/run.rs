//! The loop of a run.

use firstflight_core::clock::{Mono, came_at};
use firstflight_core::conclusion::RunResult;
use firstflight_core::policy::Trust;
use firstflight_core::progress::{Limit, Now};
use firstflight_core::receive::Event;
use firstflight_core::signals::Signals;

use super::Engine;
use super::sender::Reports;
use crate::counts::Counts;

/// A pass begins so long after the last one at the earliest, so that the datagrams of a server's flight are
/// read together. Times of records are the kernel's and do not depend on it.
const PAUSE: Mono = 2_000_000;

/// Longest sleep, so that signals are noticed.
const LONGEST_WAIT: Mono = 100_000_000;

/// Shortest sleep while something is queued that the rate does not allow yet.
const QUEUED_WAIT: Mono = 1_000_000;

impl Engine {
    /// Works until all is done, or a signal came and the open connections have ended (a second one: at once).
    pub fn run(mut self, signals: &Signals) -> RunResult<Counts> {
        let mut failed = false;
        while !self.is_done() {
            self.stopping |= signals.stop();
            self.stopping |= self.pauses.read(self.backlog.groups_mut());
            failed = self.writer.has_failed();
            if failed || signals.stop_now() {
                self.stopping = true;
                break;
            }
            let drained = self.receive();
            self.flights.expire(drained);
            self.send();
            self.write_finished();
            self.writer.submit();
            self.report_progress();
            self.wait();
        }
        let interrupted = self.stopping && !failed && self.pauses.broken().is_none();
        self.finish(interrupted)
    }

    fn is_done(&self) -> bool {
        (self.stopping || self.backlog.is_empty()) && self.flights.len() == 0
    }

    /// Returns how many more connections may be in flight.
    fn room(&self) -> usize {
        if self.writer.is_behind() || self.stopping {
            return 0;
        }
        self.flights.room()
    }

    /// Reads everything that came. Returns the time up to which that is so.
    fn receive(&mut self) -> Mono {
        let (flights, clock) = (&mut self.flights, self.clock);
        let egress = self.sender.egress_mut();
        self.receiver.read_all(|port, event| match event {
            Event::Stamp { number, stamp } => {
                if let Some(key) = egress.stamped(port, number, stamp) {
                    flights.stamped(key, stamp);
                }
            }
            Event::Icmp { to, icmp, quote } => flights.icmp(to, &icmp, quote),
            Event::Datagram {
                peer,
                control,
                bytes,
            } => {
                let now = clock.now();
                let came = control.stamp.map_or(now, |at| came_at(at, now));
                flights.datagram(peer, control, bytes, (came, now));
            }
        })
    }

    /// Sends what may be sent now.
    fn send(&mut self) {
        let room = self.room();
        let mut to = Reports {
            flights: &mut self.flights,
            receiver: &mut self.receiver,
        };
        self.sender.send_queued(&mut to);
        if self.stopping {
            to.flights.end_waiting();
        }
        self.sender.send_second(&mut self.backlog, &mut to);
        if room > 0 {
            self.sender.send_new(&mut self.backlog, room, &mut to);
        }
        self.backlog.left(self.clock);
    }

    /// Passes finished connections on to the writer.
    fn write_finished(&mut self) {
        let ports = self.sender.egress().ports();
        for mut finished in self.flights.finished() {
            if let Some(sent) = &mut finished.sent {
                sent.src_ip = sent.src_ip.or_else(|| ports.route(sent.to));
            }
            self.writer.push(finished);
        }
    }

    /// Ends the run. If it was cut short, answered connections are closed within the rate.
    fn finish(mut self, interrupted: bool) -> RunResult<Counts> {
        self.flights.end_answered();
        let mut to = Reports {
            flights: &mut self.flights,
            receiver: &mut self.receiver,
        };
        self.sender.send_queued(&mut to);
        self.flights.finish_all();
        self.write_finished();
        let mut counts = self.flights.counts().clone();
        counts.tally.not_done += self.backlog.len() as u64;
        self.progress.finish();
        let written = self.writer.finish();
        RunResult {
            counts,
            highest: self.sender.egress().highest(),
            lists: self.sender.egress().policy().followed(),
            interrupted,
            written: match self.pauses.broken() {
                None => written,
                Some(failure) => written.and(Err(failure)),
            },
        }
    }

    fn report_progress(&mut self) {
        let now = Now {
            done: self.flights.counts().tally.records(),
            left: Some(self.backlog.len() as u64),
            in_flight: self.flights.len(),
            limit: self.limit(),
        };
        self.progress.tick(&now);
    }

    /// Returns why no more connections began.
    fn limit(&self) -> Limit {
        let now = self.clock.now();
        match self.backlog.next_at() {
            _ if self.writer.is_behind() => Limit::Writing,
            _ if self.stopping || self.backlog.is_empty() => Limit::LastAnswers,
            _ if self.sender.egress().policy().trust() < Trust::All => Limit::Unconfirmed,
            _ if self.flights.room() == 0 => Limit::InFlight,
            None => Limit::Paused,
            Some(at) if at > now => Limit::Networks,
            Some(_) if self.sender.egress().next_new() > now => Limit::Rate,
            Some(_) => Limit::Machine,
        }
    }

    /// Sleeps until something is due or comes.
    fn wait(&mut self) {
        let earliest = self.resumed_at + PAUSE;
        let now = self.clock.now();
        if now < earliest && self.flights.len() > 1 {
            std::thread::sleep(std::time::Duration::from_nanos(earliest - now));
        }
        let now = self.clock.now();
        let next_new = self.backlog.next_at().filter(|_| self.room() > 0);
        let next_new = next_new.map(|at| at.max(self.sender.egress().next_new()));
        let second = self.flights.next_waiting();
        let second = second.map(|at| at.max(self.sender.egress().next_new()));
        let sendable = self.sender.egress().next_other().max(now + QUEUED_WAIT);
        let due = [
            next_new,
            second,
            self.flights.next_at(sendable),
            Some(now + LONGEST_WAIT),
        ];
        let due = due.into_iter().flatten().min().unwrap_or(now);
        if due > now {
            self.receiver.wait(due - now);
        }
        self.resumed_at = self.clock.now();
    }
}
