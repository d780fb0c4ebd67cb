//! How probes end: by what came, by their time; and how they leave as records.

use super::Engine;
use crate::counts::Counts;
use crate::finished::{FinishedProbe, Sent};
use crate::outcome::Outcome;
use crate::table::{Flight, Handle, Phase};
use firstflight_core::clock::Mono;
use firstflight_core::records::writer::Writer;
use firstflight_core::targets::TargetRef;
use firstflight_core::targets::groups::Standing;

impl Engine {
    /// Ends what fell due before `drained`, up to which all datagrams are read.
    pub(super) fn end_what_is_due(&mut self, drained: Mono) {
        while let Some(handle) = self.settles.pop(drained) {
            self.end_if_over(handle, drained);
        }
        while let Some(window) = self.windows.pop(drained) {
            let Some(flight) = self.table.get(window.handle) else {
                continue;
            };
            let present =
                flight.attempt == window.attempt && flight.token_sent == window.after_token;
            if flight.phase == Phase::Open && present {
                self.end_by_window(window.handle, drained);
            }
        }
        if self.stopping {
            while let Some(handle) = self.again.pop_front() {
                self.abandon(handle);
            }
        }
        while let Some(handle) = self.cooldowns.pop(drained) {
            self.finish(handle);
        }
    }

    /// The time for an answer is over: a probe without any gets another connection.
    pub(super) fn end_by_window(&mut self, handle: Handle, now: Mono) {
        let Some(flight) = self.table.get(handle) else {
            return;
        };
        // A slot is one connection at one time.
        let last = matches!(flight.target, TargetRef::Fed(_))
            || flight.attempt >= self.settings.attempts
            || self.backlog.groups.standing(flight.group) != Standing::Free;
        if flight.exchange.outcome() != Outcome::Timeout || last {
            self.end(handle, now);
        } else if self.stopping {
            self.abandon(handle);
        } else {
            flight.phase = Phase::Queued;
            self.again.push_back(handle);
        }
    }

    /// A settle timer fell due.
    fn end_if_over(&mut self, handle: Handle, now: Mono) {
        if self
            .table
            .get(handle)
            .is_some_and(|f| f.phase == Phase::Open && f.exchange.hello.is_some())
        {
            self.end(handle, now);
        }
    }

    /// A probe is over: a close if it was answered, then late datagrams are counted for a while.
    pub(super) fn end(&mut self, handle: Handle, now: Mono) {
        let Some(flight) = self.table.get(handle) else {
            return;
        };
        flight.phase = Phase::Cooldown;
        let port = usize::from(flight.port);
        if flight.exchange.is_answered() {
            self.outgoing[port].close(handle, now);
        } else {
            self.cooldowns.start(now, handle);
        }
    }

    /// A probe leaves the table as a record.
    pub(super) fn finish(&mut self, handle: Handle) {
        let Some(flight) = self.take(handle) else {
            return;
        };
        let outcome = flight.exchange.outcome();
        let port = self.ports.get(usize::from(flight.port));
        let bound = Some(port.source()).filter(|ip| !ip.is_unspecified());
        let sent = Sent {
            attempts: flight.attempt,
            initial_size: flight.initial_size,
            src_ip: bound
                .or(flight.local)
                .or_else(|| self.ports.route(flight.to)),
            src_port: port.local.port(),
            first_sent: flight.first_sent,
            sent_at: flight.sent_at,
            after_close: flight.after_close,
            ttl: flight.ttl,
            exchange: flight.exchange,
        };
        self.counts.missing_tx_stamps += u64::from(sent.sent_at.is_none());
        let ended = FinishedProbe {
            target: flight.target,
            outcome,
            sent: Some(sent),
            why: None,
        };
        record(&mut self.counts, &mut self.writer, ended);
    }

    /// A probe leaves the table without record: the run ends before it could.
    pub(super) fn abandon(&mut self, handle: Handle) {
        if self.take(handle).is_some() {
            self.counts.not_done += 1;
        }
    }

    /// A probe leaves the table.
    pub(super) fn take(&mut self, handle: Handle) -> Option<Flight> {
        let flight = self.table.get(handle)?;
        let (line, attempts) = (flight.line, flight.attempt);
        let key = self.cids;
        self.table
            .remove(handle, (1..=attempts).map(|attempt| key.of(line, attempt)))
    }

    /// A target becomes a record without anything sent to it.
    pub(super) fn unsent(&mut self, target: TargetRef, outcome: Outcome, why: String) {
        let ended = FinishedProbe::unsent(target, outcome, why);
        record(&mut self.counts, &mut self.writer, ended);
    }
}

/// Counts a record and hands it to the writer.
pub(super) fn record(
    counts: &mut Counts,
    writer: &mut Writer<FinishedProbe>,
    ended: FinishedProbe,
) {
    counts.record(ended.outcome, ended.sent.is_some());
    writer.push(ended);
}
