//! Loss recovery (RFC 9002) from a connection's packets: the client's round-trip times and probe timeouts, and the
//! spurious retransmissions of both sides.

mod rtt;
mod sent;

pub use rtt::Rtt;
pub use sent::{NewlyAcknowledged, PayloadSummary, Sent};

use firstflight_wire::transport::{TransportParameters, id};
use firstflight_wire::{Ack, Frame};
use smallvec::SmallVec;

/// Maximum number of samples kept per connection; [`Rtt::samples`] counts all.
const KEPT: usize = 64;
/// Exponent of ACK Delay if the sender's own does not apply (RFC 9000 18.2).
const DEFAULT_EXPONENT: u64 = 3;
/// max_ack_delay of an endpoint that does not send it, in ms (RFC 9000 18.2).
const DEFAULT_MAX_ACK_DELAY_MS: u64 = 25;

/// Maximum number of packets remembered per space: about 5 MB in flight.
const MOST_PACKETS: usize = 4096;

/// Approximate limit for all connections together.
const PACKETS_IN_ALL: usize = 1 << 18;

/// How many packets in a space to remember with this number of connections.
pub fn remembered(connections: usize) -> usize {
    (PACKETS_IN_ALL / connections.max(1)).min(MOST_PACKETS)
}

/// Longest plausible round-trip time: one hour.
const LONGEST_NS: i64 = 3_600_000_000_000;

/// Packet number spaces (RFC 9000 12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Initial,
    Handshake,
    Application,
}

impl Space {
    pub const ALL: [Space; 3] = [Space::Initial, Space::Handshake, Space::Application];
}

/// A round-trip time of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Arrival of the ACK.
    pub ns: i64,
    pub rtt_ns: i64,
    /// Probe timeout in the ACK's space after the sample, before back-off.
    pub pto_ns: i64,
}

/// How an endpoint delays its acknowledgements, from the transport parameters.
#[derive(Clone, Copy, Debug)]
pub struct AckDelay {
    pub exponent: u64,
    pub max_ms: u64,
}

impl Default for AckDelay {
    fn default() -> Self {
        AckDelay {
            exponent: DEFAULT_EXPONENT,
            max_ms: DEFAULT_MAX_ACK_DELAY_MS,
        }
    }
}

impl AckDelay {
    /// The delays that these parameters advertise, with the defaults of RFC 9000 18.2.
    pub fn advertised(parameters: TransportParameters<'_>) -> AckDelay {
        let integer = |id, default| parameters.integer(id).ok().flatten().unwrap_or(default);
        AckDelay {
            exponent: integer(id::ACK_DELAY_EXPONENT, DEFAULT_EXPONENT),
            max_ms: integer(id::MAX_ACK_DELAY, DEFAULT_MAX_ACK_DELAY_MS),
        }
    }
}

/// Recovery of both sides.
#[derive(Debug, Default)]
pub struct Recovery {
    /// By space; `None` until a packet was sent in it.
    client: [Option<Box<Sent>>; 3],
    server: [Option<Box<Sent>>; 3],
    /// Counts of spaces that were released.
    spurious: (u32, u32),
    /// A packet of the client or the server had its bytes in too many pieces to detect every repetition.
    scattered: (bool, bool),
    is_over: bool,
    /// The client's round-trip times.
    pub rtt: Rtt,
    /// The first samples.
    pub samples: SmallVec<[Sample; 1]>,
    /// The server's ACK delay parameters.
    pub ack_delay: AckDelay,
    pub handshake_confirmed: bool,
    /// How many packets in a space to remember, if more than the minimum.
    pub remembered: usize,
}

impl Recovery {
    /// Processes a new decrypted packet and summarizes the payload. `with_bytes`: detect retransmissions.
    pub fn packet(
        &mut self,
        space: Space,
        from_client: bool,
        number: u64,
        ns: i64,
        frames: &[Frame<'_>],
        with_bytes: bool,
    ) -> PayloadSummary {
        if self.is_over && space != Space::Application {
            return PayloadSummary::default();
        }
        let index = space as usize;
        let (sender, receiver) = if from_client {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        // The server's packets only serve to find retransmissions, which need `with_bytes`.
        let payload = if from_client || with_bytes {
            let sent = sender[index].get_or_insert_default();
            let remembered = self.remembered.max(sent::PACKETS);
            let payload = sent.packet(number, ns, frames, with_bytes, remembered);
            let scattered = if from_client {
                &mut self.scattered.0
            } else {
                &mut self.scattered.1
            };
            *scattered |= sent.is_scattered && !self.is_over;
            payload
        } else {
            PayloadSummary::default()
        };
        if self.is_over {
            return payload;
        }
        let mut sampled = None;
        for frame in frames {
            if let Frame::Ack(ack) | Frame::PathAck { path: 0, ack } = frame
                && let Some(sent) = receiver[index].as_mut()
                && let Some(new) = sent.acknowledge(ack)
                && !from_client
            {
                sampled = Some((new.sent_ns, *ack));
            }
        }
        if let Some((sent_ns, ack)) = sampled {
            self.sample(space, sent_ns, ns, &ack);
        }
        payload
    }

    /// A Retry makes the client start again; its packet numbers continue (RFC 9002 6.3).
    pub fn begin_again(&mut self) {
        *self = Recovery::default();
    }

    fn sample(&mut self, space: Space, sent_ns: i64, ns: i64, ack: &Ack<'_>) {
        let max_ns = i64::try_from(self.ack_delay.max_ms.min(1 << 14)).unwrap_or(0) * 1_000_000;
        let scaled_ns = |exponent: u64| {
            let us = u32::try_from(exponent)
                .ok()
                .and_then(|e| ack.delay.checked_mul(1u64.checked_shl(e)?));
            let ns = us.and_then(|us| i64::try_from(us).ok()?.checked_mul(1000));
            ns.unwrap_or(i64::MAX)
        };
        let delay_ns = match space {
            Space::Initial => 0,
            Space::Handshake => scaled_ns(DEFAULT_EXPONENT),
            Space::Application => scaled_ns(self.ack_delay.exponent),
        };
        let delay_ns = if self.handshake_confirmed {
            delay_ns.min(max_ns)
        } else {
            delay_ns
        };
        let rtt_ns = ns - sent_ns;
        // A clock that was set meanwhile gives no sample.
        if !(0..=LONGEST_NS).contains(&rtt_ns) {
            return;
        }
        self.rtt.sample(rtt_ns, delay_ns);
        let max_ack_delay_ns = if space == Space::Application {
            max_ns
        } else {
            0
        };
        if self.samples.len() < KEPT {
            self.samples.push(Sample {
                ns,
                rtt_ns,
                pto_ns: self.rtt.pto_ns(max_ack_delay_ns),
            });
        }
    }

    /// Freezes ACK-derived state, because the connection was closed; later ACKs are ignored. Payload still counts as
    /// new or repeated.
    pub fn end(&mut self) {
        if self.is_over {
            return;
        }
        self.spurious = self.spurious_so_far();
        self.is_over = true;
        for spaces in [&mut self.client, &mut self.server] {
            let application = spaces[Space::Application as usize].take();
            *spaces = Default::default();
            spaces[Space::Application as usize] = application.and_then(Sent::end);
        }
        self.samples.shrink_to_fit();
    }

    /// Spurious retransmissions of client and server: packets that repeat CRYPTO or STREAM bytes although the first
    /// packet with them arrived. `None` if the bytes were in too many pieces to detect every repetition.
    pub fn spurious(&self) -> (Option<u32>, Option<u32>) {
        let (client, server) = self.spurious_so_far();
        (
            Some(client).filter(|_| !self.scattered.0),
            Some(server).filter(|_| !self.scattered.1),
        )
    }

    fn spurious_so_far(&self) -> (u32, u32) {
        if self.is_over {
            return self.spurious;
        }
        let sum = |spaces: &[Option<Box<Sent>>; 3]| {
            let counts = spaces.iter().flatten().map(|sent| sent.spurious);
            counts.fold(0, u32::saturating_add)
        };
        let (client, server) = self.spurious;
        (
            client.saturating_add(sum(&self.client)),
            server.saturating_add(sum(&self.server)),
        )
    }
}

#[cfg(test)]
mod tests;
