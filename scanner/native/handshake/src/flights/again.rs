//! Second connections. After the first connection, a target waits until its address may be contacted again.

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
    /// Number of the port of the first connection. Tokens are bound to an address.
    pub port: u16,
    first: Box<Sent>,
    memory: Memory,
}

/// All waiting targets, ordered by the time of their next check.
#[derive(Default)]
pub struct WaitingList {
    by_time: BTreeMap<(Mono, u64), Waiting>,
    next: u64,
}

impl WaitingList {
    /// Returns the number of waiting targets.
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
    /// Handles the end of a first connection. A second one follows if it is configured and the first one was complete.
    /// Otherwise the target gets a record.
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

    /// Removes and returns a target for which a second connection may be due.
    pub fn take_waiting(&mut self, now: Mono) -> Option<Waiting> {
        self.waiting.pop(now)
    }

    /// Returns when [`Self::take_waiting`] returns the next target.
    pub fn next_waiting(&self) -> Option<Mono> {
        self.waiting.next_at()
    }

    /// Puts back a target that may not be contacted before `at`.
    pub fn wait_until(&mut self, at: Mono, waiting: Waiting) {
        self.waiting.push(at, waiting);
    }

    /// Starts the second connection to a target. Returns `None` if that fails; the target then has a record.
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

    /// Records a target without a second connection, with the reason.
    pub fn unsent_again(&mut self, waiting: Waiting, outcome: Outcome, why: String) {
        let second = Second {
            outcome,
            sent: None,
            why: Some(why),
        };
        self.record(waiting.target, waiting.first, Some(second));
    }

    /// Starts no more second connections. Waiting targets get records with only their first connection.
    pub fn end_waiting(&mut self) {
        self.settings.second = false;
        while let Some(waiting) = self.waiting.pop(Mono::MAX) {
            self.record(waiting.target, waiting.first, None);
        }
    }
}
