//! The run: one thread receives answers, finishes questions, and starts and sends new questions until all
//! names are done.

mod gather;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstflight_core::Failure;
use firstflight_core::clock::{Clock, Mono, wall};
use firstflight_core::connected::{Connected, Event, Unsent};
use firstflight_core::egress::is_full;
use firstflight_core::progress::{Limit, Now, Progress};
use firstflight_core::records::Writer;
use firstflight_core::signals::Signals;

use crate::input::names::Names;
use crate::questions::checks::{Checks, Verdict};
use crate::questions::table::Table;
use crate::results::outcome::Finished;
use crate::wire::query;

/// Longest sleep. The loop checks for signals at least this often.
const LONGEST_WAIT: Mono = 100_000_000;
/// Longest sleep while a pipe may deliver names.
const NAMES_WAIT: Mono = 10_000_000;
/// Sleep after a full send queue of the system.
const FULL_WAIT: Mono = 1_000_000;
/// With at least this many questions in flight, the loop pauses after each read, so that it can handle
/// several answers at a time. The kernel supplies the arrival times.
const BULK: usize = 64;
const PAUSE: Duration = Duration::from_micros(100);
/// Maximum number of bytes that wait to be written. Above it, no new name starts.
const MOST_WAITING: u64 = 16 << 20;
/// Maximum number of open TCP connections to one resolver. RFC 7766 6.2.2 recommends few.
const CONNECTIONS: usize = 16;

/// A run's state.
pub struct Engine {
    pub names: Names,
    pub table: Table,
    pub connected: Connected,
    pub writer: Writer<Finished>,
    /// Number of finished names.
    pub finished: u64,
    /// Bytes passed to the writer, and bytes that the writer has written.
    pub pushed: u64,
    pub written: Arc<AtomicU64>,
    pub checks: Checks,
    pub progress: Progress,
    pub clock: Clock,
    pub server_count: usize,
    /// Questions per second for each resolver; `None`: no limit.
    pub rates: Vec<Option<f64>>,
}

/// A run's result.
pub struct RunResult {
    pub table: Table,
    pub connected: Connected,
    pub interrupted: bool,
    /// Number of the last segment, or the reason for the early end of the run.
    pub written: Result<u32, Failure>,
    /// Whether the run stopped because no resolver answers.
    pub down: bool,
}

impl Engine {
    /// Resolves all names.
    pub fn run(mut self, signals: &Signals) -> RunResult {
        let mut down = None;
        let mut interrupted = false;
        self.begin_checks();
        loop {
            if signals.stop() {
                interrupted = true;
                break;
            }
            let received = self.receive_and_expire();
            self.check(&mut down);
            if down.is_some() || self.writer.has_failed() {
                break;
            }
            self.begin_names(self.clock.now());
            let full = self.send();
            self.free_sockets();
            self.write();
            self.writer.submit();
            self.tell();
            if self.is_done() {
                break;
            }
            self.wait(received, full);
        }
        self.finish(interrupted, down)
    }

    /// Passes finished names to the writer.
    fn write(&mut self) {
        for name in self.table.finished.drain(..) {
            self.finished += 1;
            self.pushed += name.weight();
            self.writer.push(name);
        }
    }

    fn is_behind(&self) -> bool {
        let waiting = self.pushed - self.written.load(Ordering::Relaxed);
        waiting > MOST_WAITING || self.writer.is_behind()
    }

    fn is_done(&self) -> bool {
        self.table.names() == 0 && self.names.is_ended() && !self.checks.is_open()
    }

    /// Reads all pending messages, and expires attempts that timed out before the last read. Returns whether
    /// any message arrived.
    fn receive_and_expire(&mut self) -> bool {
        let (received, drained) = self.receive();
        self.table.expire(drained);
        received
    }

    /// Reads all pending messages. Returns whether any arrived, and the time up to which all messages were
    /// read.
    fn receive(&mut self) -> (bool, Mono) {
        let (table, mut failed, mut received) = (&mut self.table, Vec::new(), false);
        let clock = self.clock;
        let drained = self.connected.read(|event| {
            received = true;
            match event {
                Event::Datagram { socket, bytes, at } | Event::Message { socket, bytes, at } => {
                    table.message(socket, bytes, at);
                }
                Event::Failed { socket, error } => {
                    table.failed(socket, &error, clock.now());
                    failed.push(socket);
                }
            }
        });
        // Closing a socket frees its number. First release the questions that still use it.
        self.free_sockets();
        for socket in failed {
            self.connected.close(socket);
        }
        (received, drained)
    }

    fn free_sockets(&mut self) {
        for socket in self.table.over.drain(..) {
            self.connected.over(socket);
        }
    }

    fn begin_checks(&mut self) {
        self.checks.begin(self.server_count);
        let now = self.clock.now();
        for resolver in 0..self.server_count {
            self.table.begin_check(resolver, now);
        }
    }

    /// Starts a check after many unanswered questions, and processes a check's results.
    fn check(&mut self, down: &mut Option<String>) {
        for (resolver, why) in std::mem::take(&mut self.table.checks) {
            match self.checks.result(resolver, why) {
                Verdict::Open => {}
                Verdict::Up => self.table.silence = 0,
                Verdict::Down(resolver, why) => {
                    let address = self.table.resolvers.all()[resolver].address;
                    *down = Some(format!(
                        "the resolver {}, port {}, does not answer ({why}, 3 tries); is it up, and is \
                         it the right one?",
                        address.ip(),
                        address.port()
                    ));
                }
            }
        }
        if !self.checks.is_open() && self.checks.are_due(self.table.silence) {
            self.begin_checks();
        }
    }

    fn begin_names(&mut self, now: Mono) {
        while !self.checks.is_open() && self.table.has_room() && !self.is_behind() {
            let Some(listed) = self.names.next() else {
                break;
            };
            self.table
                .begin(listed.line, listed.domain, listed.name, now);
        }
    }

    /// Sends waiting questions as the rates allow. Returns whether a send queue of the system was full.
    fn send(&mut self) -> bool {
        let mut full = false;
        for resolver in 0..self.server_count {
            self.connect(resolver);
            while !full {
                let waiting = self.table.queues[resolver].udp.len();
                // A resolver without a rate limit always allows a batch.
                if waiting == 0 {
                    break;
                }
                let room = self
                    .connected
                    .allow(resolver, self.clock.now())
                    .min(waiting);
                if room == 0 {
                    break;
                }
                full = self.send_batch(resolver, room);
            }
        }
        full
    }

    /// Sends up to `count` of the questions that wait for a resolver, all from one socket.
    fn send_batch(&mut self, resolver: usize, count: usize) -> bool {
        let waiting = &mut self.table.queues[resolver].udp;
        let numbers: Vec<u32> = waiting.drain(..count.min(waiting.len())).collect();
        let socket = match self.connected.begin(resolver) {
            Ok(socket) => socket,
            Err(why) => {
                self.unsent(&numbers, &why);
                return false;
            }
        };
        let mut batch = Vec::with_capacity(numbers.len());
        for number in numbers {
            let (table, mut id) = (&mut self.table, 0);
            let pushed = self.connected.push(socket, |out| {
                let (length, drawn) = table.write(number, socket, out);
                id = drawn;
                length
            });
            match pushed {
                // Reserve the id now, so that no other question of this batch gets it.
                Ok(()) => {
                    self.table.reserve(socket, id, number);
                    batch.push((number, id));
                }
                Err(why) => self.unsent(&[number], &why),
            }
        }
        let (at, now) = (wall(), self.clock.now());
        let handed = self.connected.send(socket);
        if let Some(error) = &handed.earlier {
            self.table.failed(socket, error, now);
        }
        for (number, id) in &batch[..handed.left] {
            self.table.sent(*number, socket, *id, now, at);
        }
        let Some(error) = handed.refused else {
            return false;
        };
        for (number, id) in batch[handed.left..].iter().rev() {
            self.table.release(socket, *id);
            if is_full(&error) {
                self.table.queues[resolver].udp.push_front(*number);
            } else {
                self.table.unsent(*number, &error, now);
            }
        }
        if is_full(&error) {
            return true;
        }
        self.table.failed(socket, &error, now);
        self.free_sockets();
        self.connected.close(socket);
        false
    }

    /// Opens TCP connections to a resolver for the questions with truncated answers.
    fn connect(&mut self, resolver: usize) {
        while !self.table.queues[resolver].tcp.is_empty()
            && self.table.connections(resolver) < CONNECTIONS
            && self.connected.allow(resolver, self.clock.now()) > 0
        {
            let Some(number) = self.table.queues[resolver].tcp.pop_front() else {
                return;
            };
            let mut out = [0; query::LONGEST];
            // The socket number is not known yet. On a new socket any id is free.
            let (length, id) = self.table.write(number, u32::MAX, &mut out);
            let (at, now) = (wall(), self.clock.now());
            match self.connected.connect(resolver, &out[..length]) {
                Ok(socket) => self.table.sent(number, socket, id, now, at),
                Err(why) => self.unsent(&[number], &why),
            }
        }
    }

    fn unsent(&mut self, numbers: &[u32], why: &Unsent) {
        let now = self.clock.now();
        let refused;
        let error = match why {
            Unsent::System(error) => error,
            Unsent::Refused(why) => {
                refused = std::io::Error::other(why.to_string());
                &refused
            }
        };
        for number in numbers {
            self.table.unsent(*number, error, now);
        }
    }

    /// Reports the progress of the run.
    fn tell(&mut self) {
        let now = self.now();
        self.progress.tick(&now);
    }

    fn now(&self) -> Now {
        Now {
            done: self.finished,
            left: self.names.remaining(),
            in_flight: self.table.names(),
            limit: self.limit(),
        }
    }

    /// Returns the reason why the loop sends no more questions now.
    fn limit(&self) -> Limit {
        if self.connected.is_held() {
            return Limit::Unconfirmed;
        }
        if self.checks.is_open() {
            return Limit::Resolver;
        }
        if self.is_behind() {
            return Limit::Writing;
        }
        let mut waiting = (0..self.server_count)
            .filter(|resolver| self.table.queues[*resolver].waits(CONNECTIONS))
            .peekable();
        if waiting.peek().is_some() {
            let now = self.clock.now();
            let is_paced = waiting.all(|resolver| self.connected.next_at(resolver) > now);
            return if is_paced {
                Limit::Rate
            } else {
                Limit::Machine
            };
        }
        match (self.names.is_ended(), self.table.has_room()) {
            (_, false) => Limit::InFlight,
            (true, true) => Limit::LastAnswers,
            (false, true) => Limit::Input,
        }
    }

    /// Sleeps until the next deadline or the next message.
    fn wait(&mut self, received: bool, full: bool) {
        if self.table.is_empty() {
            self.names.wait(Duration::from_nanos(LONGEST_WAIT));
            return;
        }
        let now = self.clock.now();
        if let Some(at) = self.gathers_until(now).filter(|_| !full) {
            std::thread::sleep(Duration::from_nanos(at.saturating_sub(now)));
            return;
        }
        if received && self.table.len() >= BULK {
            std::thread::sleep(PAUSE);
            return;
        }
        let mut longest = LONGEST_WAIT;
        if !self.names.is_ended() && self.table.has_room() && !self.checks.is_open() {
            longest = NAMES_WAIT;
        }
        if full {
            longest = FULL_WAIT;
        }
        let due = (0..self.server_count)
            .filter(|resolver| self.table.queues[*resolver].waits(CONNECTIONS))
            .map(|resolver| {
                self.connected
                    .next_at(resolver)
                    .max(now + if full { FULL_WAIT } else { 0 })
            })
            .chain(self.table.next_at())
            .min();
        let due = due.unwrap_or(Mono::MAX).saturating_sub(now);
        if due > 0 {
            self.connected.wait(due.min(longest));
        }
    }

    /// Returns the start of the next pass if the loop should gather answers until then.
    fn gathers_until(&self, now: Mono) -> Option<Mono> {
        let resolvers = self.rates.iter().enumerate();
        let waiting = resolvers.map(|(resolver, rate)| gather::Waiting {
            rate: *rate,
            count: self.table.queues[resolver].udp.len(),
            next_at: self.connected.next_at(resolver),
        });
        gather::until(now, waiting)
    }

    /// Finishes the run. Names in flight get no rows.
    fn finish(mut self, interrupted: bool, down: Option<String>) -> RunResult {
        self.progress.finish();
        self.write();
        self.table.counts.not_done = self.table.names() as u64;
        self.table.counts.rejected = self.names.rejected;
        self.table.counts.resumed = self.names.resumed;
        let written = self.writer.finish();
        let is_down = down.is_some();
        let failure = down.map(Failure::Input).or_else(|| self.names.failure());
        RunResult {
            table: self.table,
            connected: self.connected,
            interrupted,
            written: match failure {
                None => written,
                Some(failure) => written.and(Err(failure)),
            },
            down: is_down,
        }
    }
}

#[cfg(test)]
mod tests;
