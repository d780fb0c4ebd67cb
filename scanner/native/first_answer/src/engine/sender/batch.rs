//! A batch of datagrams from one port: written, handed to the kernel, and reported.

use std::io;
use std::time::Duration;

use firstflight_core::clock::wall;
use firstflight_core::egress::{Class, NextTry, NotTaken};
use firstflight_core::receive::Event;

use super::{Reports, Sender};
use crate::exchange::Exchange;
use crate::outcome::Outcome;
use crate::probes::{Handle, Kind, Probes};

/// A datagram in the batch.
pub(super) struct Item {
    handle: Handle,
    kind: Kind,
    /// The further connection that it starts, which counts once it has left.
    next: Option<Box<Exchange>>,
}

impl Sender {
    /// Writes a datagram into the batch.
    pub(super) fn push(
        &mut self,
        handle: Handle,
        kind: Kind,
        next: Option<Box<Exchange>>,
        probes: &mut Probes,
    ) {
        let Some(flight) = probes.sending(handle, kind) else {
            return;
        };
        let exchange = next.as_deref().unwrap_or(&flight.exchange);
        let packets = &self.packets;
        let taken = if kind == Kind::Close {
            // The policy was asked about the name when the Initial left, and lists do not change during a
            // run; it is asked about the address again.
            self.egress.push(flight.to, "", Class::Other, false, |out| {
                packets.close(out, exchange)
            })
        } else {
            let class = match kind {
                Kind::New => Class::New,
                _ => Class::Other,
            };
            let target = self.list.look(&flight.target);
            self.egress
                .push(flight.to, target.domain, class, true, |out| {
                    packets.initial(out, exchange, target.sni(), flight.initial_size)
                })
        };
        let (outcome, why) = match taken {
            Ok(()) => {
                self.batch.push(Item { handle, kind, next });
                return;
            }
            Err(NotTaken::Refused(refusal)) => (Outcome::Blocked, refusal.to_string()),
            Err(NotTaken::Unwritable(error)) => (Outcome::SendFailed, unwritable(kind, error)),
            Err(NotTaken::OverRate) => (Outcome::SendFailed, OVER_RATE.to_owned()),
        };
        probes.not_sent(handle, kind, outcome, why, self.clock.now());
    }

    /// Hands the batch to the kernel, all of it.
    pub(super) fn send_batch(&mut self, port: usize, to: &mut Reports<'_>) {
        let (mut from, mut tries) = (0, 0);
        while from < self.batch.len() {
            let earliest = wall();
            match self.egress.send(port, from) {
                Ok(sent) => {
                    self.report_sent(port, from, sent, earliest, to.probes);
                    from += sent;
                    tries = 0;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.read_errors(port, to);
                    self.egress.restart_stamps(port);
                    tries += 1;
                    match NextTry::after(&e, tries) {
                        NextTry::AtOnce => {}
                        NextTry::Later => std::thread::sleep(Duration::from_millis(1)),
                        NextTry::Never => {
                            let Item { handle, kind, .. } = self.batch[from];
                            let why = format!("the system refused to send: {e}");
                            let now = self.clock.now();
                            to.probes
                                .not_sent(handle, kind, Outcome::SendFailed, why, now);
                            from += 1;
                            tries = 0;
                        }
                    }
                }
            }
        }
        self.batch.clear();
        self.egress.clear();
    }

    /// The first `sent` datagrams from number `from` on have left.
    fn report_sent(
        &mut self,
        port: usize,
        from: usize,
        sent: usize,
        earliest: i64,
        probes: &mut Probes,
    ) {
        let now = self.clock.now();
        for item in &mut self.batch[from..from + sent] {
            let next = item.next.take();
            let key = probes.sent(item.handle, item.kind, port as u16, next, now, earliest);
            if let Some(key) = key {
                self.egress.await_stamp(port, key, earliest);
            }
        }
    }

    /// Reads what the kernel reports about earlier datagrams of a port.
    fn read_errors(&mut self, port: usize, to: &mut Reports<'_>) {
        let (egress, clock) = (&mut self.egress, self.clock);
        let probes = &mut *to.probes;
        to.receiver
            .read_errors(port, &mut |port, event| match event {
                Event::Stamp { number, stamp } => {
                    if let Some(key) = egress.stamped(port, number, stamp) {
                        probes.stamped(key, stamp);
                    }
                }
                Event::Icmp { to, icmp, quote } => probes.icmp(port, to, &icmp, quote, clock.now()),
                Event::Datagram { .. } => {}
            });
    }
}

/// Datagrams beyond what the egress allowed are a defect of this engine.
const OVER_RATE: &str = "the rate did not allow it, which is a defect of the prober";

/// Why a datagram could not be written.
fn unwritable(kind: Kind, error: firstflight_wire::Error) -> String {
    match kind {
        Kind::Token => format!("the Retry's token does not fit the Initial: {error}"),
        _ => format!("the packet cannot be built: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_that_cannot_be_written_says_why() {
        let error = firstflight_wire::Error::NoRoom;
        for (kind, start) in [
            (Kind::Token, "the Retry's token does not fit the Initial: "),
            (Kind::New, "the packet cannot be built: "),
            (Kind::Close, "the packet cannot be built: "),
        ] {
            assert_eq!(
                unwritable(kind, error),
                format!("{start}{error}"),
                "{kind:?}"
            );
        }
    }
}
