//! A batch of datagrams from a port: writes it, passes it to the kernel, and reports the results.

use firstflight_core::clock::Clock;
use firstflight_core::egress::{Class, Egress, NotTaken, Sent};
use firstflight_core::receive::Event;

use super::{Reports, Sender};
use crate::exchange::Exchange;
use crate::outcome::Outcome;
use crate::probes::{Handle, Kind, Probes, StampKey};

/// A datagram in the batch.
pub(super) struct Item {
    handle: Handle,
    kind: Kind,
    /// The further connection that it starts. The connection counts once the datagram is sent.
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
        // The egress policy checks the name each time, because its owner may opt out in the meantime.
        let target = self.list.look(&flight.target);
        let taken = if kind == Kind::Close {
            self.egress
                .push(flight.to, target.domain, Class::Other, false, |out| {
                    packets.close(out, exchange)
                })
        } else {
            let class = match kind {
                Kind::New => Class::New,
                _ => Class::Other,
            };
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

    /// Passes the whole batch to the kernel.
    pub(super) fn send_batch(&mut self, port: usize, to: &mut Reports<'_>) {
        let (batch, clock) = (&mut self.batch, self.clock);
        self.egress.send_all(port, |egress, sent| match sent {
            Sent::Left { numbers, earliest } => {
                let now = clock.now();
                for item in &mut batch[numbers] {
                    let (next, at) = (item.next.take(), port as u16);
                    let sent = to
                        .probes
                        .sent(item.handle, item.kind, at, next, now, earliest);
                    if let Some(key) = sent {
                        egress.await_stamp(port, key, earliest);
                    }
                }
            }
            Sent::NotTaken => read_errors(port, egress, to, clock),
            Sent::Failed { number, why } => {
                let Item { handle, kind, .. } = batch[number];
                to.probes
                    .not_sent(handle, kind, Outcome::SendFailed, why, clock.now());
            }
        });
        self.batch.clear();
    }
}

/// Reads the kernel's reports about earlier datagrams from a port.
fn read_errors(port: usize, egress: &mut Egress<StampKey>, to: &mut Reports<'_>, clock: Clock) {
    let probes = &mut *to.probes;
    to.receiver
        .read_errors(port, &mut |port, event| match event {
            Event::Stamp { number, stamp } => {
                if let Some(key) = egress.stamped(port, number, stamp) {
                    probes.stamped(key, stamp);
                }
            }
            Event::Icmp { to, icmp, quote } => {
                egress.explain();
                probes.icmp(port, to, &icmp, quote, clock.now());
            }
            Event::Datagram { .. } => {}
        });
}

/// The sender asks the egress how many datagrams are allowed, so more datagrams are a defect of this engine.
const OVER_RATE: &str = "the rate did not allow it, which is a defect of the prober";

/// Returns why a datagram could not be written.
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
