//! How each side in a connection acknowledges the other's packets, for `quic_ack`.
//!
//! Counts cover 1-RTT and 0-RTT packets, which share their numbers, unless a column names other packets.

mod received;
mod spans;
#[cfg(test)]
mod tests;

pub use received::Received;

use firstflight_wire::{Frame, Frames, TAG_LEN};

use crate::flow::quantiles::Durations;
use crate::quic::recovery::Space;
use received::New;

/// Maximum number of individually kept values in a distribution; with more, quantiles are within 1/128.
const MOST_VALUES: usize = 1 << 16;
/// Packets of the peer after which some stacks acknowledge less often.
const FIRST_PACKETS: u64 = 100;
/// Timers fire at most this much early.
const TIMER_SLACK_NS: i64 = 1_000_000;

/// A decrypted packet that was not seen before.
#[derive(Clone, Copy, Debug)]
pub struct AckPacket<'a> {
    pub space: Space,
    pub ns: i64,
    pub number: u64,
    /// Bytes of the whole packet.
    pub size: usize,
    /// Its frames.
    pub payload: &'a [u8],
    /// The sender's advertised delay and exponent of acknowledgements, or the defaults.
    pub max_ack_delay_ms: u64,
    pub exponent: u64,
}

/// Packets with ACK frames in a packet number space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckPackets {
    pub all: u64,
    /// Nothing but ACK and PADDING frames.
    pub only: u64,
}

/// Bytes by purpose, in all decrypted packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Composition {
    pub headers: u64,
    pub tags: u64,
    pub ack: u64,
    pub crypto: u64,
    pub stream: u64,
    pub padding: u64,
    pub other: u64,
}

/// Number of ACK packets, and number of packets that they newly acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratio {
    acks: u64,
    packets: u64,
}

impl Ratio {
    fn add(&mut self, packets: u64) {
        self.acks += 1;
        self.packets += packets;
    }

    /// Packets per ACK packet.
    pub fn share(&self) -> Option<f64> {
        (self.acks > 0).then(|| self.packets as f64 / self.acks as f64)
    }
}

/// Reasons for ACK packets that acknowledge new packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    pub count: u64,
    pub timer: u64,
    pub reordering: u64,
}

/// The request of an ACK_FREQUENCY frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested {
    sequence: u64,
    pub threshold: u64,
    pub max_ack_delay_us: u64,
    pub reordering: u64,
}

/// A side's acknowledgements.
#[derive(Debug, Default)]
pub struct Side {
    /// By packet number space.
    pub ack_packets: [AckPackets; 3],
    pub packets: u64,
    pub eliciting: u64,
    pub composition: Composition,
    /// IP total lengths of datagrams that hold only 1-RTT packets with only ACK and PADDING frames.
    pub only_bytes: Durations,
    pub only_bytes_sum: u64,
    pub ack_frame_bytes: u64,
    pub received: Received,
    /// Newly acknowledged ack-eliciting packets per ACK packet.
    pub per_ack: Durations,
    pub ratio: Ratio,
    pub ratio_first: Ratio,
    pub ratio_after: Ratio,
    pub causes: Causes,
    pub waits: Durations,
    pub waits_over: u64,
    /// ACK Delay fields in microseconds.
    pub delays: Durations,
    ranges: Ratio,
    pub ranges_max: Option<u64>,
    pub ecn_acks: u64,
    pub ecn: Option<[u64; 3]>,
    /// Frames of the peer that ask this side to acknowledge differently.
    pub ack_frequency_frames: u64,
    pub immediate_ack_frames: u64,
    pub requested: Option<Requested>,
    /// Packets of the current datagram with only ACK and PADDING frames.
    only_here: u32,
}

/// Acknowledgements of both sides.
#[derive(Debug, Default)]
pub struct Acks {
    pub client: Side,
    pub server: Side,
}

impl Acks {
    /// Adds a packet.
    pub fn packet(&mut self, from_client: bool, packet: &AckPacket<'_>) {
        let (sender, receiver) = if from_client {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        let is_eliciting = sender.sent(packet);
        if packet.space == Space::Application {
            receiver
                .received
                .packet(packet.number, packet.ns, is_eliciting);
            receiver.asked(packet.payload);
        }
    }

    /// A datagram with `packets` packets has been read.
    pub fn datagram(&mut self, from_client: bool, packets: u32, ip_bytes: usize) {
        let side = if from_client {
            &mut self.client
        } else {
            &mut self.server
        };
        let only = std::mem::take(&mut side.only_here);
        if only > 0 && only == packets {
            side.only_bytes_sum += ip_bytes as u64;
            add(&mut side.only_bytes, ip_bytes as u64);
        }
    }
}

impl Side {
    /// Whether it acknowledged anything.
    pub fn acknowledges(&self) -> bool {
        self.ack_packets.iter().any(|packets| packets.all > 0)
    }

    /// Mean number of ranges of an ACK frame.
    pub fn ranges_mean(&self) -> Option<f64> {
        self.ranges.share()
    }

    /// Adds a packet sent by this side and returns whether it is ack-eliciting.
    fn sent(&mut self, packet: &AckPacket<'_>) -> bool {
        let is_application = packet.space == Space::Application;
        let (mut has_ack, mut has_more, mut is_eliciting) = (false, false, false);
        let mut new = New::default();
        let bytes = &mut self.composition;
        bytes.tags += TAG_LEN as u64;
        bytes.headers += packet.size.saturating_sub(TAG_LEN + packet.payload.len()) as u64;
        let mut frames = Frames::new(packet.payload);
        let mut rest = packet.payload.len();
        while let Some(Ok(frame)) = frames.next() {
            let length = (rest - frames.rest().len()) as u64;
            rest = frames.rest().len();
            is_eliciting |= frame.is_ack_eliciting();
            let bytes = &mut self.composition;
            match frame {
                Frame::Ack(ack) | Frame::PathAck { path: 0, ack } => {
                    has_ack = true;
                    bytes.ack += length;
                    if is_application {
                        self.ack_frame_bytes += length;
                        self.ranges.add(ack.range_count + 1);
                        self.ranges_max = self.ranges_max.max(Some(ack.range_count + 1));
                        add(&mut self.delays, scaled(ack.delay, packet.exponent));
                        if ack.ecn.is_some() {
                            self.ecn_acks += 1;
                            self.ecn = ack.ecn;
                        }
                        new.add(self.received.acknowledge(&ack));
                    }
                    continue;
                }
                Frame::Padding { .. } => {
                    bytes.padding += length;
                    continue;
                }
                Frame::Crypto { .. } => bytes.crypto += length,
                Frame::Stream { .. } => bytes.stream += length,
                _ => bytes.other += length,
            }
            has_more = true;
        }
        // An unknown or broken frame and the rest of the payload.
        self.composition.other += rest as u64;
        if is_application {
            self.packets += 1;
            self.eliciting += u64::from(is_eliciting);
        }
        if has_ack {
            let packets = &mut self.ack_packets[packet.space as usize];
            packets.all += 1;
            packets.only += u64::from(!has_more);
            if is_application {
                self.only_here += u32::from(!has_more);
                self.acknowledged(packet, new);
            }
        }
        is_eliciting
    }

    /// This side sent an ACK in a 1-RTT packet that newly acknowledges `new`.
    fn acknowledged(&mut self, packet: &AckPacket<'_>, new: New) {
        self.ratio.add(new.packets);
        add(&mut self.per_ack, new.packets);
        if self.received.eliciting <= FIRST_PACKETS {
            self.ratio_first.add(new.packets);
        } else {
            self.ratio_after.add(new.packets);
        }
        let Some(oldest_ns) = new.oldest_ns else {
            return;
        };
        let wait_ns = packet.ns - oldest_ns;
        let limit_us = match self.requested {
            Some(requested) => requested.max_ack_delay_us,
            None => packet.max_ack_delay_ms.saturating_mul(1000),
        };
        let limit_ns = i64::try_from(limit_us.saturating_mul(1000)).unwrap_or(i64::MAX);
        if self.received.is_out_of_order {
            self.causes.reordering += 1;
        } else if wait_ns >= limit_ns - TIMER_SLACK_NS {
            self.causes.timer += 1;
        } else {
            self.causes.count += 1;
        }
        self.waits_over += u64::from(wait_ns > limit_ns);
        self.waits.add(wait_ns);
        if self.waits.kept() > MOST_VALUES {
            self.waits.compress();
        }
    }

    /// The peer sent a packet that may ask for different acknowledgements.
    fn asked(&mut self, payload: &[u8]) {
        for frame in Frames::new(payload).flatten() {
            match frame {
                Frame::ImmediateAck => self.immediate_ack_frames += 1,
                Frame::AckFrequency {
                    sequence,
                    ack_eliciting_threshold,
                    max_ack_delay_us,
                    reordering_threshold,
                } => {
                    self.ack_frequency_frames += 1;
                    let is_old = self.requested.is_some_and(|r| r.sequence > sequence);
                    if !is_old {
                        self.requested = Some(Requested {
                            sequence,
                            threshold: ack_eliciting_threshold,
                            max_ack_delay_us,
                            reordering: reordering_threshold,
                        });
                    }
                }
                _ => {}
            }
        }
    }
}

fn add(values: &mut Durations, value: u64) {
    values.add(i64::try_from(value).unwrap_or(i64::MAX));
    if values.kept() > MOST_VALUES {
        values.compress();
    }
}

/// An ACK Delay field in microseconds.
fn scaled(raw: u64, exponent: u64) -> u64 {
    let factor = u32::try_from(exponent)
        .ok()
        .and_then(|e| 1u64.checked_shl(e));
    factor.map_or(u64::MAX, |factor| raw.saturating_mul(factor))
}
