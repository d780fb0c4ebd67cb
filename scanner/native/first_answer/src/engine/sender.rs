//! Sends tokens and closes from the port of their probe, and new connections in batches from a random port.

mod batch;

use std::sync::Arc;

use firstflight_core::clock::{Clock, Mono};
use firstflight_core::egress::{BATCH, Egress};
use firstflight_core::feed::{Conditions, Due, Schedule};
use firstflight_core::receive::Receiver;
use firstflight_core::targets::{Backlog, FedTarget, Groups, TargetList, TargetRef};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::outcome::Outcome;
use crate::packets::Packets;
use crate::probes::{Kind, Probes, StampKey, line_and_group, no_family};
use batch::Item;

/// Maximum number of batches of new probes, and of further connections, per call.
const BATCHES: usize = 16;

/// Writes the datagrams of probes and hands them to the egress.
pub struct Sender {
    egress: Egress<StampKey>,
    packets: Packets,
    list: Arc<TargetList>,
    /// Chooses source ports.
    random: ChaCha8Rng,
    clock: Clock,
    /// The datagrams in the egress's batch.
    batch: Vec<Item>,
}

/// Receives reports about sent and failed datagrams.
pub struct Reports<'a> {
    pub probes: &'a mut Probes,
    /// Read when a send fails, because the kernel reports errors of earlier datagrams to the next sender.
    pub receiver: &'a mut Receiver,
}

impl Sender {
    /// Sends through `egress` to the targets of `list`. `random` chooses source ports.
    pub fn new(
        egress: Egress<StampKey>,
        packets: Packets,
        list: Arc<TargetList>,
        random: ChaCha8Rng,
        clock: Clock,
    ) -> Sender {
        Sender {
            egress,
            packets,
            list,
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

    /// Sends the queued datagrams that are due, for each port. `at_once`: closes do not wait for other closes.
    pub fn send_queued(&mut self, to: &mut Reports<'_>, at_once: bool) {
        for port in 0..self.egress.ports().len() {
            let now = self.clock.now();
            if to.probes.queue().is_due(port, now, !at_once) {
                self.send_queued_of(port, now, to);
            }
        }
    }

    fn send_queued_of(&mut self, port: usize, now: Mono, to: &mut Reports<'_>) {
        let room = self.egress.allow_other(now);
        for _ in 0..room {
            let Some((handle, kind)) = to.probes.queue().pop(port) else {
                break;
            };
            self.push(handle, kind, None, to.probes);
            if self.egress.is_full() {
                self.send_batch(port, to);
            }
        }
        self.send_batch(port, to);
    }

    /// Sends further connections for targets that did not answer, unless their group is paused. Each connection uses
    /// another port than the one before.
    pub fn send_next_attempts(&mut self, groups: &Groups, to: &mut Reports<'_>) {
        for _ in 0..BATCHES {
            for v4 in [true, false] {
                let waiting = to.probes.queue().next_attempts();
                if waiting == 0 || self.egress.ports().of(v4).is_empty() {
                    continue;
                }
                let room = self.egress.allow_other(self.clock.now()) as usize;
                let count = waiting.min(room).min(BATCH);
                if count > 0 {
                    let port = self.random_port(v4);
                    self.send_next_attempts_from(port, v4, count, groups, to);
                }
            }
        }
    }

    /// Dequeues the first `count` further connections, and sends the connections that may use `port`.
    fn send_next_attempts_from(
        &mut self,
        port: u16,
        v4: bool,
        count: usize,
        groups: &Groups,
        to: &mut Reports<'_>,
    ) {
        let now = self.clock.now();
        for _ in 0..count {
            let Some(handle) = to.probes.pop_next_attempt(now, groups) else {
                break;
            };
            let Some(flight) = to.probes.sending(handle, Kind::NextAttempt) else {
                continue;
            };
            if flight.to.is_ipv4() != v4 || flight.port == port {
                to.probes.queue().next_attempt(handle);
                continue;
            }
            let next = to.probes.next_attempt(handle, self.packets.destination());
            self.push(handle, Kind::NextAttempt, next, to.probes);
        }
        self.send_batch(usize::from(port), to);
    }

    /// Sends the planned probes that are due. `writer_behind`: the writer is too slow for the records.
    pub fn send_planned(
        &mut self,
        schedule: &mut Schedule,
        backlog: &mut Backlog,
        to: &mut Reports<'_>,
        stopping: bool,
        writer_behind: bool,
    ) {
        loop {
            let conditions = Conditions {
                stopping,
                room: !writer_behind && to.probes.room() > 0,
            };
            let now = self.clock.now();
            let Some(due) = schedule.next(now, conditions, &mut self.egress, backlog) else {
                return;
            };
            to.probes.counts_mut().tally.targets += 1;
            match due {
                Due::Connect(fed) => self.send_planned_probe(fed, to),
                Due::Blocked(fed, why) => {
                    to.probes.unsent(TargetRef::Fed(fed), Outcome::Blocked, why)
                }
                Due::NoFamily(fed) => {
                    let why = no_family(fed.ip.is_ipv4());
                    to.probes
                        .unsent(TargetRef::Fed(fed), Outcome::SendFailed, why);
                }
            }
        }
    }

    fn send_planned_probe(&mut self, fed: Arc<FedTarget>, to: &mut Reports<'_>) {
        let port = self.random_port(fed.ip.is_ipv4());
        let address = (fed.ip, fed.port).into();
        let details = (fed.number, fed.group);
        let dcid = self.packets.destination();
        let handle = to
            .probes
            .connect(TargetRef::Fed(fed), details, address, port, dcid);
        self.push(handle, Kind::New, None, to.probes);
        self.send_batch(usize::from(port), to);
    }

    /// Sends new probes of the list, at most `room`.
    pub fn send_new(&mut self, backlog: &mut Backlog, room: usize, to: &mut Reports<'_>) {
        let now = self.clock.now();
        let most = self
            .egress
            .allow_new(now)
            .min((BATCHES * BATCH) as u64)
            .min(room as u64);
        let mut families = [Vec::new(), Vec::new()];
        for _ in 0..most {
            let next = backlog.next(now, self.egress.policy(), |target, why| {
                let target = TargetRef::Listed(target);
                to.probes.unsent(target, Outcome::Blocked, why);
            });
            let Some((target, address)) = next else {
                break;
            };
            families[usize::from(address.is_ipv6())].push((target, address));
        }
        for targets in families {
            for some in targets.chunks(BATCH) {
                let v4 = some[0].1.is_ipv4();
                if self.egress.ports().of(v4).is_empty() {
                    for (target, _) in some {
                        let target = TargetRef::Listed(*target);
                        to.probes.unsent(target, Outcome::SendFailed, no_family(v4));
                    }
                    continue;
                }
                let port = self.random_port(v4);
                for (target, address) in some {
                    let details = line_and_group(&self.list.get(*target));
                    let target = TargetRef::Listed(*target);
                    let dcid = self.packets.destination();
                    let handle = to.probes.connect(target, details, *address, port, dcid);
                    self.push(handle, Kind::New, None, to.probes);
                }
                self.send_batch(usize::from(port), to);
            }
        }
    }

    /// Returns the number of a random source port.
    fn random_port(&mut self, v4: bool) -> u16 {
        let random = self.random.next_u32() as usize;
        let ports = self.egress.ports().of(v4);
        ports[random % ports.len()]
    }
}

#[cfg(test)]
mod tests;
