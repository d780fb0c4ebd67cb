//! A run's loop.

use firstflight_core::Failure;
use firstflight_core::clock::{Mono, came_at};
use firstflight_core::conclusion::RunResult;
use firstflight_core::progress::Progress;
use firstflight_core::receive::Event;
use firstflight_core::run::{self, FinishedRun, State};
use firstflight_core::signals::Signals;

use super::Engine;
use super::sender::Reports;
use crate::connection::Times;
use crate::counts::Counts;
use crate::finished::Finished;

/// Minimum time between the starts of two passes, so that a pass reads all datagrams in a server's flight. Times in
/// records are the kernel's and do not depend on it.
const PAUSE: Mono = 2_000_000;

/// Longest sleep, so that signals are noticed.
const LONGEST_WAIT: Mono = 100_000_000;

/// Shortest sleep while datagrams are queued that the rate does not allow yet.
const QUEUED_WAIT: Mono = 1_000_000;

impl Engine {
    /// Runs until all targets are done. After a signal, runs until the open connections have ended. A second signal
    /// stops the run immediately.
    pub fn run(self, signals: &Signals) -> RunResult<Counts> {
        run::run(self, signals)
    }

    /// Returns how many more connections may be in flight.
    fn room(&self) -> usize {
        if self.writer.is_behind() || self.stopping {
            return 0;
        }
        self.flights.room()
    }

    /// Reads all events. Returns the time up to which all events are read.
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
                flights.datagram(peer, control, bytes, Times { came, now });
            }
        })
    }

    /// Sends all datagrams that may be sent now.
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
        self.backlog.mark_sent(self.clock);
    }

    /// Passes finished connections to the writer.
    fn write_finished(&mut self) {
        let ports = self.sender.egress().ports();
        for mut finished in self.flights.finished() {
            if let Some(sent) = &mut finished.sent {
                sent.src_ip = sent.src_ip.or_else(|| ports.route(sent.to));
            }
            self.writer.push(finished);
        }
    }
}

impl run::Engine for Engine {
    type Counts = Counts;
    type Record = Finished;

    fn read_feed(&mut self) -> bool {
        self.pauses.read(self.backlog.groups_mut())
    }

    fn stop(&mut self) {
        self.stopping = true;
    }

    fn is_stopping(&self) -> bool {
        self.stopping
    }

    fn is_done(&self) -> bool {
        (self.stopping || self.backlog.is_empty()) && self.flights.len() == 0
    }

    fn pass(&mut self) {
        let drained = self.receive();
        self.flights.expire(drained);
        self.send();
        self.write_finished();
        self.writer.submit();
    }

    /// Sleeps until an action is due or an event arrives.
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

    fn state(&self) -> State {
        let egress = self.sender.egress();
        State {
            now: self.clock.now(),
            done: self.flights.counts().tally.records(),
            left: self.backlog.len(),
            in_flight: self.flights.len(),
            is_ending: self.stopping || self.backlog.is_empty(),
            is_behind: self.writer.is_behind(),
            trust: egress.policy().trust(),
            room: self.flights.room(),
            next_target: self.backlog.next_at(),
            next_new: egress.next_new(),
        }
    }

    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    fn has_failed(&self) -> bool {
        self.writer.has_failed()
    }

    fn broken(&self) -> Option<Failure> {
        self.pauses.broken()
    }

    /// If the run was interrupted, closes answered connections within the rate.
    fn end(mut self) -> FinishedRun<Counts, Finished> {
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
        FinishedRun {
            counts,
            highest: self.sender.egress().highest(),
            lists: self.sender.egress().policy().followed(),
            progress: self.progress,
            writer: self.writer,
            failure: self.pauses.broken(),
        }
    }
}
