//! Records sent datagrams, datagrams that could not be sent, and transmit stamps.

use firstflight_core::clock::{Mono, Stamp};

use super::{Handle, Kind, Phase, Probes, Window};
use crate::exchange::Exchange;
use crate::outcome::Outcome;

/// The datagram to which a transmit stamp belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampKey {
    handle: Handle,
    attempt: u8,
    /// True for the Initial with the Retry's token, false for the connection's first Initial.
    token: bool,
}

impl Probes {
    /// Records a datagram that was sent from number `port`. `next`: the further connection that it starts, if it starts
    /// one. `earliest`: wall clock before sending. Returns the transmit stamp's key, if the datagram requested a stamp.
    pub fn sent(
        &mut self,
        handle: Handle,
        kind: Kind,
        port: u16,
        next: Option<Box<Exchange>>,
        now: Mono,
        earliest: Stamp,
    ) -> Option<StampKey> {
        if let Some(next) = next {
            self.start_attempt(handle, port, *next);
        }
        match kind {
            Kind::New => {}
            Kind::NextAttempt => self.counts.retransmissions += 1,
            Kind::Token => self.counts.token_initials += 1,
            Kind::Close => {
                self.counts.closes += 1;
                self.deadlines.cooldowns.start(now, handle);
                return None;
            }
        }
        let token = kind == Kind::Token;
        let Some(flight) = self.table.get(handle) else {
            // The stamp arrives even if the probe has finished.
            return Some(StampKey {
                handle,
                attempt: 0,
                token: false,
            });
        };
        flight.sent_about = earliest;
        if token {
            flight.token_sent = true;
            flight.sent_at = None;
        }
        let attempt = flight.attempt;
        let window = Window {
            handle,
            attempt,
            after_token: token,
        };
        self.deadlines.windows.start(now, window);
        Some(StampKey {
            handle,
            attempt,
            token,
        })
    }

    /// Starts a further connection for a probe.
    fn start_attempt(&mut self, handle: Handle, port: u16, next: Exchange) {
        let Some(flight) = self.table.get(handle) else {
            return;
        };
        flight.attempt += 1;
        flight.exchange = next;
        flight.port = port;
        flight.phase = Phase::Open;
        (flight.first_sent, flight.sent_at, flight.token_sent) = (None, None, false);
        self.table.index(handle);
    }

    /// Records that a datagram could not be sent. If the target was sent nothing, the outcome is `outcome` and the
    /// detail is `why`.
    pub fn not_sent(
        &mut self,
        handle: Handle,
        kind: Kind,
        outcome: Outcome,
        why: String,
        now: Mono,
    ) {
        match kind {
            Kind::New => {
                if let Some(flight) = self.take(handle) {
                    self.unsent(flight.target, outcome, why);
                }
            }
            Kind::Close => {
                self.counts.failed_closes += 1;
                self.deadlines.cooldowns.start(now, handle);
            }
            Kind::NextAttempt | Kind::Token => {
                if let Some(flight) = self.table.get(handle) {
                    flight.exchange.note(|| why);
                }
                self.end(handle, now);
            }
        }
    }

    /// Records the kernel's transmit stamp for a datagram.
    pub fn stamped(&mut self, key: StampKey, stamp: Stamp) {
        let Some(flight) = self.table.get(key.handle) else {
            return;
        };
        if flight.attempt != key.attempt {
            return;
        }
        if !key.token {
            flight.first_sent = Some(stamp);
        }
        if flight.token_sent == key.token {
            flight.sent_at = Some(stamp);
        }
    }
}
