//! All connections in flight. Received datagrams and expired timers lead to datagrams to send and to finished records.
//! This module has no socket and no clock, so tests call it directly.

mod again;
mod table;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use firstflight_core::cid::{CidKey, destination_cid, source_cid};
use firstflight_core::clock::{Mono, Stamp};
use firstflight_core::receive::{Control, Icmp};
use firstflight_core::targets::TargetRef;
use firstflight_wire::Error;

use crate::connection::{Connection, Context, Datagram, Times};
use crate::counts::Counts;
use crate::finished::{Finished, Second, Sent};
use crate::outcome::Outcome;
pub use again::Waiting;
use again::WaitingList;
use table::Table;
pub use table::{Flight, Handle};

/// Maximum number of connections in flight, about 30 kB each.
pub const MOST_IN_FLIGHT: usize = 10_000;

/// Returns an upper bound for the average number of datagrams in a connection: the datagrams of the ClientHello,
/// Finished with the request, an ACK, a close, and one more for losses.
pub fn per_connection(hello_datagrams: u64) -> u64 {
    hello_datagrams + 4
}

/// The datagram to which a transmit stamp belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampKey {
    pub handle: Handle,
    pub datagram: u16,
}

/// How connections are made.
pub struct Settings {
    /// UDP payload of Initials on IPv4, on IPv6.
    pub sizes: [u16; 2],
    /// Time after the end of a connection during which late datagrams are counted.
    pub cooldown: Mono,
    /// Connect a second time to each target after a complete first connection.
    pub second: bool,
}

/// A target to connect to.
pub struct Next<'a> {
    pub target: TargetRef,
    pub line: u32,
    pub domain: &'a str,
    pub to: SocketAddr,
    /// Number of the port to send from.
    pub port: u16,
    /// Random destination connection ID.
    pub destination: [u8; 8],
    /// Bytes of the request's stream.
    pub request: Box<[u8]>,
}

/// All connections in flight.
pub struct Flights {
    context: Arc<Context>,
    settings: Settings,
    cids: CidKey,
    /// Bound addresses, by number of the port.
    locals: Vec<SocketAddr>,
    table: Table,
    /// Connections that may have datagrams to send, by number of the port.
    queues: Vec<VecDeque<Handle>>,
    timers: BinaryHeap<Reverse<(Mono, Handle)>>,
    /// Targets that wait for their second connection.
    waiting: WaitingList,
    counts: Counts,
    finished: Vec<Finished>,
}

impl Flights {
    /// Creates a table without connections. `locals`: bound addresses, by number of the port; `counts`: earlier counts
    /// of the run.
    pub fn new(
        context: Arc<Context>,
        settings: Settings,
        cids: CidKey,
        locals: Vec<SocketAddr>,
        counts: Counts,
    ) -> Flights {
        Flights {
            context,
            settings,
            cids,
            queues: locals.iter().map(|_| VecDeque::new()).collect(),
            locals,
            table: Table::default(),
            timers: BinaryHeap::new(),
            waiting: WaitingList::default(),
            counts,
            finished: Vec::new(),
        }
    }

    /// Returns the number of connections in flight plus the number of targets that wait for their second connection.
    pub fn len(&self) -> usize {
        self.table.len() + self.waiting.len()
    }

    /// Returns how many more connections may be in flight.
    pub fn room(&self) -> usize {
        MOST_IN_FLIGHT.saturating_sub(self.len())
    }

    /// Returns the counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the targets finished since the last call.
    pub fn finished(&mut self) -> impl Iterator<Item = Finished> + '_ {
        self.finished.drain(..)
    }

    /// Adds a connection and returns the handle. The caller sends the first datagram. Returns `None` if no ClientHello
    /// can be made; the target then has a record.
    pub fn connect(&mut self, next: Next<'_>, now: Mono) -> Option<Handle> {
        let cids = (self.cids.of(next.line, 1), next.destination);
        let size = self.settings.sizes[usize::from(next.to.is_ipv6())];
        let name = (next.domain, next.to.ip());
        let connection = Connection::new(self.context.clone(), name, cids, next.request, size, now);
        match connection {
            Ok(connection) => {
                let target = (next.target, next.to, next.port);
                Some(self.table.insert(Flight::new(target, connection, None)))
            }
            Err(why) => {
                self.unsent(next.target, Outcome::SendFailed, why);
                None
            }
        }
    }

    /// Records a target to which nothing was sent.
    pub fn unsent(&mut self, target: TargetRef, outcome: Outcome, why: String) {
        self.counts.tally.record(outcome, false);
        self.finished.push(Finished {
            target,
            outcome,
            sent: None,
            why: Some(why),
            second: None,
        });
    }

    /// Writes a connection's next datagram. Returns `None` if there is no datagram or the connection is no longer
    /// in flight.
    pub fn write(
        &mut self,
        handle: Handle,
        now: Mono,
        out: &mut [u8],
    ) -> Result<Option<Datagram>, Error> {
        match self.table.get(handle) {
            Some(flight) => flight.connection.transmit(now, out),
            None => Ok(None),
        }
    }

    /// Returns whether the next datagram in a connection will be acknowledged. Its transmit stamp then gives a
    /// round-trip time.
    pub fn wants_stamp(&mut self, handle: Handle) -> bool {
        let flight = self.table.get(handle);
        flight.is_some_and(|flight| flight.connection.wants_stamp())
    }

    /// Returns a connection's address and target.
    pub fn target_of(&mut self, handle: Handle) -> Option<(SocketAddr, TargetRef)> {
        let flight = self.table.get(handle)?;
        Some((flight.to, flight.target.clone()))
    }

    /// Dequeues the next connection that may have something to send from number `port`.
    pub fn pop(&mut self, port: usize) -> Option<Handle> {
        let handle = self.queues[port].pop_front()?;
        if let Some(flight) = self.table.get(handle) {
            flight.queued = false;
        }
        Some(handle)
    }

    /// Puts a connection into its port's queue.
    pub fn queue(&mut self, handle: Handle) {
        if let Some(flight) = self.table.get(handle).filter(|flight| !flight.queued) {
            flight.queued = true;
            self.queues[usize::from(flight.port)].push_back(handle);
        }
    }

    /// Updates a connection's timer after all the datagrams are written.
    pub fn written(&mut self, handle: Handle, now: Mono) {
        let Some(flight) = self.table.get(handle) else {
            return;
        };
        if flight.connection.is_over() && flight.gone_at.is_none() {
            flight.gone_at = Some(now + self.settings.cooldown);
        }
        let due = flight.gone_at.or(flight.connection.next_at());
        // A timer that expires too early is set again then.
        if let Some(due) = due.filter(|due| flight.timer.is_none_or(|set| *due < set)) {
            flight.timer = Some(due);
            self.timers.push(Reverse((due, handle)));
        }
    }

    /// Handles an error in sending datagram number `datagram` for a connection. If the target was sent nothing else, it
    /// gets a record with `outcome`. Other connections retransmit later.
    pub fn not_sent(&mut self, handle: Handle, datagram: u16, outcome: Outcome, why: String) {
        self.counts.failed_datagrams += 1;
        if datagram == 0
            && let Some(flight) = self.table.remove(handle)
        {
            self.unsent_flight(flight, outcome, why);
        }
    }

    /// Handles a datagram that could not be written or may not be sent. If the target was sent no other datagram, it
    /// gets a record with `outcome`. Otherwise the connection ends.
    pub fn failed(&mut self, handle: Handle, outcome: Outcome, why: String, now: Mono) {
        let Some(flight) = self.table.get(handle) else {
            return;
        };
        if flight.connection.observed.sent.datagrams > 0 {
            flight.connection.observed.note(|| why);
            flight.connection.give_up();
            return self.written(handle, now);
        }
        if let Some(flight) = self.table.remove(handle) {
            self.unsent_flight(flight, outcome, why);
        }
    }

    /// Records a target to which this connection sent nothing, with its first connection if there was one.
    fn unsent_flight(&mut self, flight: Flight, outcome: Outcome, why: String) {
        let Some(first) = flight.first else {
            return self.unsent(flight.target, outcome, why);
        };
        let second = Second {
            outcome,
            sent: None,
            why: Some(why),
        };
        self.record(flight.target, first, Some(second));
    }

    /// Records the kernel's transmit stamp for a datagram.
    pub fn stamped(&mut self, key: StampKey, stamp: Stamp) {
        if let Some(flight) = self.table.get(key.handle) {
            flight.connection.stamped(key.datagram, stamp);
        }
    }

    /// Processes an ICMP message that quotes a datagram to `to`. `quote` is the quoted part of the payload. A message
    /// without our connection ID is only counted, because anybody could have sent it.
    pub fn icmp(&mut self, to: SocketAddr, icmp: &Icmp, quote: &[u8]) {
        let handle = source_cid(quote).and_then(|cid| self.table.find(cid));
        let flight = handle.and_then(|handle| self.table.get(handle));
        match (handle, flight) {
            (Some(handle), Some(flight)) if flight.to == to => {
                let refused = icmp.is_port_unreachable();
                flight.connection.icmp(icmp.kind, icmp.code, refused);
                self.queue(handle);
            }
            _ => self.counts.unmatched_icmp += 1,
        }
    }

    /// Processes a datagram from `peer`.
    pub fn datagram(
        &mut self,
        peer: SocketAddr,
        control: &Control,
        bytes: &mut [u8],
        times: Times,
    ) {
        let handle = destination_cid(bytes).and_then(|cid| self.table.find(cid));
        let flight = handle.and_then(|handle| self.table.get(handle));
        let (Some(handle), Some(flight)) = (handle, flight) else {
            self.counts.unmatched += 1;
            return;
        };
        // A datagram from another address is not the server's, even with the right connection ID.
        if flight.to != peer {
            self.counts.unmatched += 1;
            return;
        }
        if flight.connection.is_over() {
            flight.after_close = flight.after_close.saturating_add(1);
            return;
        }
        let Some(at) = control.stamp else {
            self.counts.missing_rx_stamps += 1;
            return;
        };
        flight.ttl = flight.ttl.or(control.ttl);
        flight.local = flight.local.or(control.local);
        flight.connection.receive(at, times, bytes);
        self.queue(handle);
    }

    /// Handles timers that expired before `drained`. All datagrams that arrived before this time are read.
    pub fn expire(&mut self, drained: Mono) {
        while let Some(Reverse((at, handle))) = self.timers.peek().copied() {
            if at > drained {
                return;
            }
            self.timers.pop();
            let Some(flight) = self
                .table
                .get(handle)
                .filter(|flight| flight.timer == Some(at))
            else {
                continue;
            };
            flight.timer = None;
            if flight.gone_at.is_some_and(|gone| gone <= drained) {
                self.finish(handle);
                continue;
            }
            flight.connection.expire(drained);
            self.queue(handle);
        }
    }

    /// Returns when the next action is due. `sendable` is the time at which queued datagrams can be sent.
    pub fn next_at(&self, sendable: Mono) -> Option<Mono> {
        let due = self.timers.peek().map(|Reverse((at, _))| *at);
        let queued = self.queues.iter().any(|queue| !queue.is_empty());
        [due, queued.then_some(sendable)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Ends all connections that the server has answered, so that they are closed.
    pub fn end_answered(&mut self) {
        for handle in self.table.handles() {
            let flight = self.table.get(handle);
            if let Some(flight) = flight.filter(|flight| flight.connection.server_cid.is_some()) {
                flight.cut_off = !flight.connection.is_over();
                flight.connection.give_up();
                self.queue(handle);
            }
        }
    }

    /// Removes all connections at the end of the run. Connections that ended by themselves become records. An
    /// unfinished first connection has no record, and the record of an unfinished second connection has only the first
    /// one.
    pub fn finish_all(&mut self) {
        self.end_waiting();
        for handle in self.table.handles() {
            match self.table.get(handle) {
                Some(flight) if flight.connection.is_over() && !flight.cut_off => {
                    self.finish(handle);
                }
                _ => match self.table.remove(handle) {
                    Some(Flight {
                        target,
                        first: Some(first),
                        ..
                    }) => self.record(target, first, None),
                    _ => self.counts.tally.not_done += 1,
                },
            }
        }
    }

    /// Removes a connection from the table and records it.
    fn finish(&mut self, handle: Handle) {
        let Some(flight) = self.table.remove(handle) else {
            return;
        };
        let outcome = outcome_of(&flight.connection);
        let bound = self.locals[usize::from(flight.port)];
        self.counts.missing_tx_stamps += u64::from(flight.connection.sent_at().is_none());
        self.counts.retransmissions += u64::from(flight.connection.observed.retransmissions);
        let sent = Box::new(Sent {
            to: flight.to,
            src_ip: Some(bound.ip())
                .filter(|ip| !ip.is_unspecified())
                .or(flight.local),
            src_port: bound.port(),
            after_close: flight.after_close,
            ttl: flight.ttl,
            connection: flight.connection,
        });
        let Some(first) = flight.first else {
            return self.first_is_over(flight.target, flight.port, sent);
        };
        self.counts.second += 1;
        let second = Second {
            outcome,
            sent: Some(sent),
            why: None,
        };
        self.record(flight.target, first, Some(second));
    }

    /// Records a finished target.
    fn record(&mut self, target: TargetRef, first: Box<Sent>, second: Option<Second>) {
        let outcome = outcome_of(&first.connection);
        self.counts.tally.record(outcome, true);
        self.finished.push(Finished {
            target,
            outcome,
            sent: Some(first),
            why: None,
            second: second.map(Box::new),
        });
    }
}

/// Returns a connection's outcome.
fn outcome_of(connection: &Connection) -> Outcome {
    connection.observed.outcome.unwrap_or(Outcome::Timeout)
}
