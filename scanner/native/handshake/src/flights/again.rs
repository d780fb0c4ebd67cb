//! Second connections: targets whose first one is over wait until their address may be contacted again.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use firstflight_core::clock::Mono;
use firstflight_core::targets::TargetRef;

use super::table::Flight;
use super::{Flights, Handle, Next};
use crate::connection::{Connection, Memory};
use crate::finished::{Second, Sent};
use crate::outcome::Outcome;

/// A target that waits for its second connection.
pub struct Waiting {
    pub target: TargetRef,
    pub to: SocketAddr,
    /// Number of the port of the first connection: tokens are for an address.
    pub port: u16,
    first: Box<Sent>,
    memory: Memory,
}

/// All of them, by when to look at them again.
#[derive(Default)]
pub struct WaitingList {
    by_time: BTreeMap<(Mono, u64), Waiting>,
    next: u64,
}

impl WaitingList {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.by_time.len()
    }

    fn push(&mut self, at: Mono, waiting: Waiting) {
        self.by_time.insert((at, self.next), waiting);
        self.next += 1;
    }

    fn next_at(&self) -> Option<Mono> {
        self.by_time.first_key_value().map(|((at, _), _)| *at)
    }

    fn pop(&mut self, now: Mono) -> Option<Waiting> {
        self.next_at().filter(|at| *at <= now)?;
        self.by_time.pop_first().map(|(_, waiting)| waiting)
    }
}

impl Flights {
    /// The first connection to a target is over: a second one follows if that was asked for and this one left
    /// something to it, else the target has its record.
    pub(super) fn first_is_over(&mut self, target: TargetRef, port: u16, mut sent: Box<Sent>) {
        let memory = sent.connection.memory().filter(|_| self.settings.second);
        match memory {
            Some(memory) => self.waiting.push(
                0,
                Waiting {
                    target,
                    to: sent.to,
                    port,
                    first: sent,
                    memory,
                },
            ),
            None => self.record(target, sent, None),
        }
    }

    /// Takes a target whose second connection may be due.
    pub fn take_waiting(&mut self, now: Mono) -> Option<Waiting> {
        self.waiting.pop(now)
    }

    /// Returns when there is such a target.
    pub fn next_waiting(&self) -> Option<Mono> {
        self.waiting.next_at()
    }

    /// The target may not be contacted before `at`.
    pub fn wait_until(&mut self, at: Mono, waiting: Waiting) {
        self.waiting.push(at, waiting);
    }

    /// Begins the second connection to a target; `None`: it has its record.
    pub fn connect_again(&mut self, waiting: Waiting, next: Next<'_>, now: Mono) -> Option<Handle> {
        let cids = (self.cids.of(next.line, 2), next.destination);
        let size = self.settings.sizes[usize::from(next.to.is_ipv6())];
        let name = (next.domain, next.to.ip());
        let context = self.context.clone();
        let memory = Some(waiting.memory.clone());
        match Connection::begin(context, name, cids, next.request, size, now, memory) {
            Ok(connection) => {
                let target = (next.target, next.to, next.port);
                let flight = Flight::new(target, connection, Some(waiting.first));
                Some(self.table.insert(flight))
            }
            Err(why) => {
                self.unsent_again(waiting, Outcome::SendFailed, why);
                None
            }
        }
    }

    /// The second connection to a target may not be made.
    pub fn unsent_again(&mut self, waiting: Waiting, outcome: Outcome, why: String) {
        let second = Second {
            outcome,
            sent: None,
            why: Some(why),
        };
        self.record(waiting.target, waiting.first, Some(second));
    }

    /// No second connection begins any more: targets that wait have their records with the first alone.
    pub fn end_waiting(&mut self) {
        self.settings.second = false;
        while let Some(waiting) = self.waiting.pop(Mono::MAX) {
            self.record(waiting.target, waiting.first, None);
        }
    }
}
