//! Sends datagrams of open connections from their ports, and starts new connections from random ports.

use std::sync::Arc;

use firstflight_core::clock::{Clock, SECOND};
use firstflight_core::egress::{BATCH, Class, Egress, NotTaken, Sent};
use firstflight_core::receive::{Event, Receiver};
use firstflight_core::targets::{Backlog, Standing, TargetList, TargetRef};
use firstflight_wire::Error;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::flights::{Flights, Handle, Next, StampKey, Waiting};
use crate::outcome::Outcome;
use crate::request::Requests;

/// The sender asks the egress how many datagrams are allowed, so more datagrams are a defect of this engine.
const OVER_RATE: &str = "the rate did not allow it, which is a defect of the engine";

/// Writes the datagrams of connections and hands them to the egress.
pub struct Sender {
    egress: Egress<StampKey>,
    list: Arc<TargetList>,
    requests: Requests,
    random: ChaCha8Rng,
    clock: Clock,
    /// The datagrams in the egress's batch.
    batch: Vec<Item>,
}

/// A datagram in the batch. `stamp`: the transmit stamp was requested.
#[derive(Clone, Copy)]
struct Item {
    key: StampKey,
    stamp: bool,
}

/// Receives reports about sent and failed datagrams.
pub struct Reports<'a> {
    pub flights: &'a mut Flights,
    /// Read when a send fails, because the kernel reports errors of earlier datagrams to the next sender.
    pub receiver: &'a mut Receiver,
}

/// Why a datagram was not written.
enum NotWritten {
    /// The connection has nothing to send.
    Nothing,
    Unwritable(Error),
}

impl Sender {
    /// Sends through `egress` to the targets of `list`, with `requests`. `random` chooses source ports.
    pub fn new(
        egress: Egress<StampKey>,
        list: Arc<TargetList>,
        requests: Requests,
        random: ChaCha8Rng,
        clock: Clock,
    ) -> Sender {
        Sender {
            egress,
            list,
            requests,
            random,
            clock,
            batch: Vec::with_capacity(BATCH),
        }
    }

    /// Returns the egress.
    pub fn egress(&self) -> &Egress<StampKey> {
        &self.egress
    }

    /// Returns the egress, to look up transmit stamps.
    pub fn egress_mut(&mut self) -> &mut Egress<StampKey> {
        &mut self.egress
    }

    /// Sends the datagrams of open connections, within the rate.
    pub fn send_queued(&mut self, to: &mut Reports<'_>) {
        for port in 0..self.egress.ports().len() {
            let mut room = self.egress.allow_other(self.clock.now());
            while room > 0 {
                let Some(handle) = to.flights.pop(port) else {
                    break;
                };
                room = self.push_all(handle, (port, Class::Other), room, to);
            }
            self.send_batch(port, to);
        }
    }

    /// Starts connections to the next targets of the list, at most `room`.
    pub fn send_new(&mut self, backlog: &mut Backlog, room: usize, to: &mut Reports<'_>) {
        let now = self.clock.now();
        let most = self
            .egress
            .allow_new(now)
            .min(BATCH as u64)
            .min(room as u64);
        for _ in 0..most {
            let next = backlog.next(now, self.egress.policy(), |target, why| {
                let target = TargetRef::Listed(target);
                to.flights.unsent(target, Outcome::Blocked, why);
            });
            let Some((target, address)) = next else {
                return;
            };
            let reference = TargetRef::Listed(target);
            let ports = self.egress.ports().of(address.is_ipv4());
            if ports.is_empty() {
                let family = if address.is_ipv4() { 4 } else { 6 };
                let why = format!("this machine has no IPv{family}");
                to.flights.unsent(reference, Outcome::SendFailed, why);
                continue;
            }
            let port = ports[self.random.next_u32() as usize % ports.len()];
            let mut destination = [0; 8];
            self.random.fill_bytes(&mut destination);
            let list = self.list.clone();
            let details = list.get(target);
            let handle = to.flights.connect(
                Next {
                    target: reference,
                    line: details.line,
                    domain: details.domain,
                    to: address,
                    port,
                    destination,
                    request: self.requests.to(details.domain, address),
                },
                now,
            );
            if let Some(handle) = handle
                && !self.send_first(handle, usize::from(port), to)
            {
                return;
            }
        }
    }

    /// Starts second connections that are due. The limits and the rate of first connections also apply to them. They
    /// wait while their network is paused.
    pub fn send_second(&mut self, backlog: &mut Backlog, to: &mut Reports<'_>) {
        let now = self.clock.now();
        while self.egress.allow_new(self.clock.now()) > 0 {
            let Some(waiting) = to.flights.take_waiting(now) else {
                return;
            };
            let list = self.list.clone();
            let details = list.look(&waiting.target);
            match backlog.groups().standing(details.group) {
                Standing::Free => match backlog.take(waiting.to.ip(), now, false) {
                    Ok(()) => self.connect_again(waiting.target.clone(), waiting, to),
                    Err(at) => to.flights.wait_until(at, waiting),
                },
                Standing::Paused => to.flights.wait_until(now + SECOND, waiting),
                Standing::Refused => {
                    let why = "its network was paused: too many timeouts or Retries".to_owned();
                    to.flights.unsent_again(waiting, Outcome::Blocked, why);
                }
            }
        }
    }

    fn connect_again(&mut self, target: TargetRef, waiting: Waiting, to: &mut Reports<'_>) {
        let list = self.list.clone();
        let details = list.look(&target);
        let (address, port) = (waiting.to, waiting.port);
        let mut destination = [0; 8];
        self.random.fill_bytes(&mut destination);
        let next = Next {
            target: target.clone(),
            line: details.line,
            domain: details.domain,
            to: address,
            port,
            destination,
            request: self.requests.to(details.domain, address),
        };
        if let Some(handle) = to.flights.connect_again(waiting, next, self.clock.now()) {
            self.send_first(handle, usize::from(port), to);
        }
    }

    /// Sends a new connection's first datagram, and the rest of the first flight. Returns whether more new
    /// connections are allowed.
    fn send_first(&mut self, handle: Handle, port: usize, to: &mut Reports<'_>) -> bool {
        self.push_all(handle, (port, Class::New), 1, to);
        self.send_batch(port, to);
        !to.flights.wants_stamp(handle) || self.send_rest(handle, port, to)
    }

    /// Sends the rest of a ClientHello immediately after the first datagram, within the rate. A server that has to wait
    /// for the rest acknowledges only the first datagram. The rest belongs to [`Class::Other`]. Returns whether more
    /// new connections are allowed.
    fn send_rest(&mut self, handle: Handle, port: usize, to: &mut Reports<'_>) -> bool {
        let room = self.egress.allow_other(self.clock.now());
        self.push_all(handle, (port, Class::Other), room, to);
        self.send_batch(port, to);
        self.egress.allow_new(self.clock.now()) > 0
    }

    /// Writes at most `room` datagrams for a connection. Returns how many more may be sent. A connection with more
    /// datagrams is queued again. The egress policy checks address and name for each datagram, because their owner may
    /// opt out in the meantime.
    fn push_all(
        &mut self,
        handle: Handle,
        (port, class): (usize, Class),
        mut room: u64,
        to: &mut Reports<'_>,
    ) -> u64 {
        let now = self.clock.now();
        let list = self.list.clone();
        while room > 0 {
            let Some((address, target)) = to.flights.target_of(handle) else {
                return room;
            };
            let domain = list.look(&target).domain;
            if self.egress.is_full() {
                self.send_batch(port, to);
            }
            let mut written = None;
            let flights = &mut *to.flights;
            let stamp = flights.wants_stamp(handle);
            let taken = self.egress.push(address, domain, class, stamp, |out| {
                match flights.write(handle, now, out) {
                    Ok(Some(datagram)) => {
                        written = Some(datagram);
                        Ok(datagram.size)
                    }
                    Ok(None) => Err(NotWritten::Nothing),
                    Err(error) => Err(NotWritten::Unwritable(error)),
                }
            });
            let (outcome, why) = match (taken, written) {
                (Ok(()), Some(datagram)) => {
                    let key = StampKey {
                        handle,
                        datagram: datagram.number,
                    };
                    self.batch.push(Item { key, stamp });
                    room -= 1;
                    continue;
                }
                (Err(NotTaken::Unwritable(NotWritten::Nothing)), _) | (Ok(()), None) => {
                    to.flights.written(handle, now);
                    return room;
                }
                (Err(NotTaken::Unwritable(NotWritten::Unwritable(error))), _) => (
                    Outcome::SendFailed,
                    format!("the packet cannot be built: {error}"),
                ),
                (Err(NotTaken::Refused(refusal)), _) => (Outcome::Blocked, refusal.to_string()),
                (Err(NotTaken::OverRate), _) => (Outcome::SendFailed, OVER_RATE.to_owned()),
            };
            to.flights.failed(handle, outcome, why, now);
            return room;
        }
        to.flights.written(handle, now);
        to.flights.queue(handle);
        room
    }

    /// Passes the whole batch to the kernel.
    fn send_batch(&mut self, port: usize, to: &mut Reports<'_>) {
        let batch = &self.batch;
        self.egress.send_all(port, |egress, sent| match sent {
            Sent::Left { numbers, earliest } => {
                for item in batch[numbers].iter().filter(|item| item.stamp) {
                    egress.await_stamp(port, item.key, earliest);
                }
            }
            Sent::NotTaken => read_errors(port, egress, to),
            Sent::Failed { number, why } => {
                let StampKey { handle, datagram } = batch[number].key;
                to.flights
                    .not_sent(handle, datagram, Outcome::SendFailed, why);
            }
        });
        self.batch.clear();
    }
}

/// Reads the kernel's reports about earlier datagrams from a port.
fn read_errors(port: usize, egress: &mut Egress<StampKey>, to: &mut Reports<'_>) {
    let flights = &mut *to.flights;
    to.receiver
        .read_errors(port, &mut |port, event| match event {
            Event::Stamp { number, stamp } => {
                if let Some(key) = egress.stamped(port, number, stamp) {
                    flights.stamped(key, stamp);
                }
            }
            Event::Icmp { to, icmp, quote } => {
                egress.explain();
                flights.icmp(to, &icmp, quote);
            }
            Event::Datagram { .. } => {}
        });
}
