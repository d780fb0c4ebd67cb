//! Completes probes after an answer or at a deadline, and makes their records.

use firstflight_core::clock::Mono;
use firstflight_core::targets::{Groups, Standing, TargetRef};

use super::connect::SERIES;
use super::{Flight, Handle, Phase, Probes};
use crate::finished::{FinishedProbe, Sent, micros_of};
use crate::outcome::Outcome;

impl Probes {
    /// Completes probes with deadlines before `drained`. All datagrams that arrived before this time are read.
    pub fn expire(&mut self, drained: Mono, groups: &Groups) {
        while let Some(handle) = self.deadlines.settles.pop(drained) {
            self.end_if_settled(handle, drained);
        }
        while let Some(window) = self.deadlines.windows.pop(drained) {
            let Some(flight) = self.table.get(window.handle) else {
                continue;
            };
            let present =
                flight.attempt == window.attempt && flight.token_sent == window.after_token;
            if flight.phase == Phase::Open && present {
                self.end_by_window(window.handle, drained, groups);
            }
        }
        if self.stopping {
            while let Some(handle) = self.queue.pop_next_attempt() {
                self.abandon(handle);
            }
        }
        self.expire_listening(drained);
        while let Some(handle) = self.deadlines.cooldowns.pop(drained) {
            self.finish(handle);
        }
    }

    /// Closes a probe's answer window. A probe without any answer gets another connection.
    pub(super) fn end_by_window(&mut self, handle: Handle, now: Mono, groups: &Groups) {
        let Some(flight) = self.table.get(handle) else {
            return;
        };
        // A planned probe is a single connection at a set time.
        let last = matches!(flight.target, TargetRef::Fed(_))
            || flight.attempt >= self.settings.attempts
            || groups.standing(flight.group) != Standing::Free;
        if flight.exchange.outcome() != Outcome::Timeout || last {
            self.end(handle, now);
        } else if self.stopping {
            self.abandon(handle);
        } else {
            flight.phase = Phase::Queued;
            self.queue.next_attempt(handle);
        }
    }

    /// Dequeues the next probe that gets a further connection. A probe is completed without one if its group was paused
    /// while it waited.
    pub fn pop_next_attempt(&mut self, now: Mono, groups: &Groups) -> Option<Handle> {
        while let Some(handle) = self.queue.pop_next_attempt() {
            let group = self.table.get(handle).map(|flight| flight.group);
            match group {
                Some(group) if groups.standing(group) == Standing::Free => return Some(handle),
                _ => self.end(handle, now),
            }
        }
        None
    }

    /// Handles an expired settle timer.
    fn end_if_settled(&mut self, handle: Handle, now: Mono) {
        let settled =
            |flight: &mut Flight| flight.phase == Phase::Open && flight.exchange.hello.is_some();
        if self.table.get(handle).is_some_and(settled) {
            self.end(handle, now);
        }
    }

    /// Completes a probe: sends a close if it was answered, then counts late datagrams during the cooldown.
    pub(super) fn end(&mut self, handle: Handle, now: Mono) {
        if self.listen(handle, now) {
            return;
        }
        let Some(flight) = self.table.get(handle) else {
            return;
        };
        flight.phase = Phase::Cooldown;
        let port = usize::from(flight.port);
        if flight.exchange.is_answered() {
            self.queue.close(port, handle, now);
        } else {
            self.deadlines.cooldowns.start(now, handle);
        }
    }

    /// Stops further connections of probes.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Completes all answered probes, so that they are closed. If a datagram that decides the outcome may still arrive,
    /// the probe has no record.
    pub fn end_answered(&mut self, now: Mono) {
        for handle in self.table.handles() {
            match self.table.get(handle) {
                Some(flight) if flight.phase == Phase::Listening => self.end_listening(handle, now),
                Some(flight) if flight.phase == Phase::Open && flight.exchange.is_answered() => {
                    flight.cut_off = !flight.exchange.is_whole();
                    self.end(handle, now);
                }
                _ => {}
            }
        }
    }

    /// Removes all probes at the end of the run. Only probes in their cooldown become records.
    pub fn finish_all(&mut self) {
        for handle in self.table.handles() {
            let flight = self.table.get(handle);
            if flight.is_some_and(|flight| flight.phase == Phase::Cooldown && !flight.cut_off) {
                self.finish(handle);
            } else {
                self.abandon(handle);
            }
        }
    }

    /// Removes a probe from the table and records it.
    fn finish(&mut self, handle: Handle) {
        let Some(flight) = self.take(handle) else {
            return;
        };
        let outcome = flight.exchange.outcome();
        let heard = flight
            .exchange
            .rare
            .as_ref()
            .filter(|_| flight.listening.is_some());
        let heard = heard.map_or(Vec::new(), |rare| {
            micros_of(flight.sent_at, &rare.retransmitted_at)
        });
        let bound = self.locals[usize::from(flight.port)];
        let sent = Sent {
            attempts: flight.attempt,
            initial_size: flight.initial_size,
            to: flight.to,
            src_ip: Some(bound.ip())
                .filter(|ip| !ip.is_unspecified())
                .or(flight.local),
            src_port: bound.port(),
            first_sent: flight.first_sent,
            sent_at: flight.sent_at,
            after_close: flight.after_close,
            ttl: flight.ttl,
            ecn: self.settings.ecn,
            listened: flight.listening,
            retransmission_us: heard,
            exchange: flight.exchange,
        };
        self.counts.missing_tx_stamps += u64::from(sent.sent_at.is_none());
        self.counts.tally.record(outcome, true);
        self.finished.push(FinishedProbe {
            target: flight.target,
            outcome,
            sent: Some(sent),
            why: None,
            initial_size: None,
        });
    }

    /// Removes a probe from the table without a record, because the run finished before the probe.
    fn abandon(&mut self, handle: Handle) {
        if self.take(handle).is_some() {
            self.counts.tally.not_done += 1;
        }
    }

    /// Removes a probe from the table.
    pub(super) fn take(&mut self, handle: Handle) -> Option<Flight> {
        let flight = self.table.get(handle)?;
        let (line, attempts, first) = (flight.line, flight.attempt, flight.series * SERIES);
        let key = self.cids;
        let numbers = (1..=attempts).map(|attempt| first + attempt);
        self.table
            .remove(handle, numbers.map(|attempt| key.of(line, attempt)))
    }

    /// Records a target to which nothing was sent.
    pub fn unsent(&mut self, target: TargetRef, outcome: Outcome, why: String) {
        self.counts.tally.record(outcome, false);
        let initial_size = self.settings.sizes.given(&target);
        self.finished.push(FinishedProbe {
            initial_size,
            ..FinishedProbe::unsent(target, outcome, why)
        });
    }
}
