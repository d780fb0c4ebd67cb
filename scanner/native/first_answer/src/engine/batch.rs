//! A batch of datagrams from one port: written, handed to the kernel, and what follows when they have left or could not.

use std::io;
use std::time::Duration;

use super::{Engine, Sent, Window};
use crate::exchange::Exchange;
use crate::outcome::Outcome;
use crate::table::{Handle, Phase};
use firstflight_core::clock::wall;
use firstflight_core::egress::stamps::Request;
use firstflight_core::egress::{self, NotTaken};

/// How often a full device queue is waited for, 1 ms each time.
const PATIENCE: u32 = 200;

/// What a datagram in the batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first Initial of a target.
    New,
    /// The first Initial of another connection to a target.
    Again,
    /// The Initial with a Retry's token.
    Token,
    Close,
}

impl Kind {
    /// Where its probe must stand; a probe may have ended while the datagram waited for its turn.
    fn phase(self) -> Phase {
        match self {
            Kind::New | Kind::Token => Phase::Open,
            Kind::Again => Phase::Queued,
            Kind::Close => Phase::Cooldown,
        }
    }
}

/// A datagram in the batch.
pub(super) struct Item {
    handle: Handle,
    kind: Kind,
    /// The new connection that it opens, which counts once it has left.
    fresh: Option<Box<Exchange>>,
}

impl Engine {
    /// Sends one datagram from `port`.
    pub(super) fn send_one(&mut self, port: usize, handle: Handle, kind: Kind) {
        let mut batch = Vec::with_capacity(1);
        self.put(&mut batch, handle, kind, None);
        self.flush(port, &mut batch);
    }

    /// Writes a datagram into the batch.
    pub(super) fn put(
        &mut self,
        batch: &mut Vec<Item>,
        handle: Handle,
        kind: Kind,
        fresh: Option<Box<Exchange>>,
    ) {
        let Some(flight) = self
            .table
            .get(handle)
            .filter(|flight| flight.phase == kind.phase())
        else {
            return;
        };
        let exchange = fresh.as_deref().unwrap_or(&flight.exchange);
        let packets = &self.packets;
        let taken = if kind == Kind::Close {
            // The name was judged when the Initial left, and lists do not change during a run; the
            // address is judged again.
            self.egress
                .push(flight.to, "", false, |out| packets.close(out, exchange))
        } else {
            let target = self.list.look(&flight.target);
            self.egress.push(flight.to, target.domain, true, |out| {
                packets.initial(out, exchange, target.sni(), flight.initial_size)
            })
        };
        match taken {
            Ok(()) => batch.push(Item {
                handle,
                kind,
                fresh,
            }),
            Err(NotTaken::Unwritable(error)) if kind == Kind::Token => {
                flight
                    .exchange
                    .note(|| format!("the Retry's token does not fit the Initial: {error}"));
                let now = self.clock.now();
                self.end(handle, now);
            }
            Err(NotTaken::Refused(refusal)) => {
                self.could_not_send(handle, kind, Outcome::Blocked, refusal.to_string())
            }
            Err(NotTaken::Unwritable(error)) => {
                self.could_not_send(
                    handle,
                    kind,
                    Outcome::SendFailed,
                    format!("the packet cannot be built: {error}"),
                );
            }
        }
    }

    /// Hands the batch to the kernel, all of it.
    pub(super) fn flush(&mut self, port: usize, batch: &mut Vec<Item>) {
        let (mut from, mut tries) = (0, 0);
        while from < batch.len() {
            let earliest = wall();
            match self.egress.send(&self.ports.get(port), from) {
                Ok(sent) => {
                    for item in &mut batch[from..from + sent] {
                        if let Some(fresh) = item.fresh.take() {
                            self.start_attempt(item.handle, port as u16, *fresh);
                        }
                        self.left(port, item.handle, item.kind, earliest);
                    }
                    from += sent;
                    tries = 0;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    // Read what the kernel has to tell first: errors of earlier datagrams are told to the next sender.
                    self.read_errors(port);
                    self.restart_stamps(port);
                    let full = egress::is_full(&e);
                    tries += 1;
                    if full && tries < PATIENCE {
                        std::thread::sleep(Duration::from_millis(1));
                    } else if full || tries > 1 {
                        let Item { handle, kind, .. } = batch[from];
                        self.could_not_send(
                            handle,
                            kind,
                            Outcome::SendFailed,
                            format!("the system refused to send: {e}"),
                        );
                        from += 1;
                        tries = 0;
                    }
                }
            }
        }
        batch.clear();
        self.egress.clear();
    }

    fn restart_stamps(&mut self, port: usize) {
        if self.ports.get(port).restart_stamps().is_ok() {
            self.requests[port].restart();
        }
    }

    /// A datagram has left.
    fn left(&mut self, port: usize, handle: Handle, kind: Kind, earliest: i64) {
        let now = self.clock.now();
        if kind == Kind::New {
            self.pacer.sent_new(now, 1);
        } else {
            self.pacer.sent_others(now, 1);
        }
        match kind {
            Kind::New => {}
            Kind::Again => self.counts.retransmissions += 1,
            Kind::Token => self.counts.token_initials += 1,
            Kind::Close => {
                self.counts.closes += 1;
                self.cooldowns.start(now, handle);
                return;
            }
        }
        let Some(flight) = self.table.get(handle) else {
            // The stamp will come all the same.
            self.requests[port].push(Request {
                key: Sent {
                    handle,
                    attempt: 0,
                    token: false,
                },
                earliest,
            });
            return;
        };
        flight.sent_about = earliest;
        if kind == Kind::Token {
            flight.token_sent = true;
            flight.sent_at = None;
        }
        let (attempt, token) = (flight.attempt, kind == Kind::Token);
        self.windows.start(
            now,
            Window {
                handle,
                attempt,
                after_token: token,
            },
        );
        self.requests[port].push(Request {
            key: Sent {
                handle,
                attempt,
                token,
            },
            earliest,
        });
    }

    fn could_not_send(&mut self, handle: Handle, kind: Kind, outcome: Outcome, why: String) {
        let now = self.clock.now();
        match kind {
            Kind::New => {
                if let Some(flight) = self.take(handle) {
                    self.unsent(flight.target, outcome, why);
                }
            }
            Kind::Close => {
                self.counts.failed_closes += 1;
                self.cooldowns.start(now, handle);
            }
            Kind::Again | Kind::Token => {
                if let Some(flight) = self.table.get(handle) {
                    flight.exchange.note(|| why);
                }
                self.end(handle, now);
            }
        }
    }
}
