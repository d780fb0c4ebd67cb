//! A TCP connection: the options that its SYNs offered, the options in use, and its statistics.

use std::net::SocketAddr;

use firstflight_wire::tcp::{Flags, TcpOption};

use super::analysis::{Analysis, Class, ObservedSegment, Verdict};
use super::limits::{Acknowledgement, Arrival, Cause, Limits};
use super::rtt::RoundTrips;
use crate::flow::coverage::{Coverage, before};
use crate::flow::table::Live;
use crate::flow::volume::{Carried, Volume};
use crate::net::ip::Segment;

/// Largest valid shift (RFC 7323 2.3).
const MAX_SHIFT: u8 = 14;

/// The options in a SYN or SYN-ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    pub mss: Option<u16>,
    pub wscale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: bool,
    /// ECE and CWR in a SYN, only ECE in a SYN-ACK (RFC 3168 6.1.1).
    pub ecn_setup: bool,
    /// The capture cut the options, so others may have been offered.
    pub is_cut: bool,
}

impl Offer {
    /// Whether an option was offered, given whether it was `observed`; `None` if unknown.
    pub fn known(&self, observed: bool) -> Option<bool> {
        (observed || !self.is_cut).then_some(observed)
    }
}

/// Facts about one side.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// `None` if its SYN was not observed.
    pub offer: Option<Offer>,
    pub sack_packets: u64,
    pub sack_blocks: u64,
    /// Packets with the bit, without SYNs.
    pub ece_packets: u64,
    pub cwr_packets: u64,
    /// Packets that arrived at this side with congestion experienced.
    pub ce_packets: u64,
    highest_window: Option<u16>,
    pub zero_windows: u64,
    pub resets: u64,
    pub fins: u64,
    pub first_payload_ns: Option<i64>,
    pub round_trips: RoundTrips,
    coverage: Coverage,
}

/// Number of segments per class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    pub retransmission: u64,
    pub fast: u64,
    pub spurious: u64,
    pub out_of_order: u64,
}

/// The side nearer to the capture, from the handshake's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureSide {
    Client,
    Server,
}

/// A flow.
#[derive(Clone, Debug)]
pub struct Flow {
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub client_side: Side,
    pub server_side: Side,
    pub volume: Volume,
    pub classes: Classes,
    /// Times of the first SYN, the SYN-ACK, and the client's ACK after it.
    pub syn_ns: Option<i64>,
    pub syn_ack_ns: Option<i64>,
    pub handshake_ns: Option<i64>,
    /// The flow started with a SYN on the ports of an earlier flow.
    pub ports_reused: bool,
    pub ttl_server: Option<u8>,
    analysis: Analysis,
    limits: Limits,
}

impl Live for Flow {
    fn last_ns(&self) -> i64 {
        self.volume.last_ns
    }
}

impl Flow {
    /// Creates a flow from the first `segment`. Without SYN and SYN-ACK, the lower port is the server's.
    pub fn new(ns: i64, segment: &Segment<'_>) -> Flow {
        let flags = segment.header.flags;
        let (src, dst) = (segment.src, segment.dst);
        let from_client = if flags.any(Flags::SYN) {
            flags.is_syn()
        } else {
            src.port() >= dst.port()
        };
        let (client, server) = if from_client { (src, dst) } else { (dst, src) };
        Flow {
            client,
            server,
            client_side: Side::default(),
            server_side: Side::default(),
            volume: Volume::new(ns),
            classes: Classes::default(),
            syn_ns: None,
            syn_ack_ns: None,
            handshake_ns: None,
            ports_reused: false,
            ttl_server: None,
            analysis: Analysis::new(),
            limits: Limits::default(),
        }
    }

    /// Whether the client sent `segment`.
    pub fn is_from_client(&self, segment: &Segment<'_>) -> bool {
        segment.src == self.client && segment.dst == self.server
    }

    /// Whether `segment` starts another flow on the same ports.
    pub fn is_reuse(&self, ns: i64, segment: &Segment<'_>) -> bool {
        let from = usize::from(!self.is_from_client(segment));
        self.analysis.is_reuse(from, &observed(ns, segment))
    }

    /// Whether only late packets can follow.
    pub fn is_closed(&self) -> bool {
        self.client_side.resets + self.server_side.resets > 0
            || (self.client_side.fins > 0 && self.server_side.fins > 0)
    }

    /// Adds a segment.
    pub fn segment(&mut self, ns: i64, segment: &Segment<'_>) -> Verdict {
        let from_client = self.is_from_client(segment);
        let observed = observed(ns, segment);
        let verdict = self.analysis.judge(usize::from(!from_client), &observed);
        self.count(&verdict);
        self.times(ns, from_client, segment);
        let (side, other) = if from_client {
            (&mut self.client_side, &mut self.server_side)
        } else {
            (&mut self.server_side, &mut self.client_side)
        };
        side.flags(segment, &verdict);
        let (offer, stamps) = side.options(ns, segment, other);
        if segment.header.flags.any(Flags::SYN) {
            side.offer.get_or_insert(offer);
        } else {
            self.limit(&observed, from_client, stamps);
        }
        let side = self.side_mut(from_client);
        // A SYN uses the number before the first byte, so the first byte of the stream is known.
        let is_syn = observed.flags.any(Flags::SYN);
        let first = observed.seq.wrapping_add(u32::from(is_syn));
        if is_syn && side.first_payload_ns.is_none() {
            side.coverage = Coverage::starting_at(first);
        }
        let new_payload = side.coverage.add(first, observed.length);
        if observed.length > 0 {
            side.first_payload_ns.get_or_insert(ns);
        }
        self.volume.packet(&Carried {
            ns,
            from_client,
            ip_bytes: segment.ip_length.bytes as u64,
            is_guessed: segment.ip_length.is_guessed,
            is_again: verdict
                .class
                .is_some_and(|class| class != Class::OutOfOrder),
            has_payload: observed.length > 0,
            new_payload: u64::from(new_payload),
        });
        verdict
    }

    /// Passes a segment that is not a SYN to the limits. `stamps`: the value and the echo of its timestamps option.
    fn limit(&mut self, observed: &ObservedSegment, from_client: bool, stamps: Option<(u32, u32)>) {
        if !observed.flags.any(Flags::ACK) || observed.flags.any(Flags::RST) {
            return;
        }
        let server = &self.server_side.coverage;
        if !from_client && observed.length == 0 {
            if let Some((_, echo)) = stamps {
                self.limits.heard(echo);
            }
            return;
        }
        let Some((value, echo)) = stamps else {
            self.limits.make_unknown();
            return;
        };
        if from_client {
            // A FIN uses the number after the last byte.
            let seen = server.contiguous().map(|end| end.wrapping_add(1));
            if seen.is_some_and(|seen| before(seen, observed.ack)) {
                self.limits.make_unknown();
            }
            let shift = self.shift(true);
            self.limits.sent(&Acknowledgement {
                ns: observed.ns,
                ack: observed.ack,
                window: shift.map(|shift| u32::from(observed.window) << shift),
                value,
                has_payload: observed.length > 0,
            });
        } else {
            let contiguous = server.contiguous();
            let arrival = Arrival {
                ns: observed.ns,
                seq: observed.seq,
                length: observed.length,
                echo,
                in_recovery: server.has_holes()
                    || contiguous.is_some_and(|end| end != observed.seq),
            };
            let mss = self.client_side.offer.and_then(|offer| offer.mss);
            let rtt_ns = self.client_side.round_trips.samples.min();
            self.limits.arrived(&arrival, mss, rtt_ns);
        }
    }

    /// The time that each cause limited the download, in nanoseconds; `None` if unknown.
    pub fn limited_ns(&self, cause: Cause) -> Option<i64> {
        self.knows_limits()
            .then(|| self.limits.time_ns(cause))
            .flatten()
    }

    /// What limited the download's throughput; `None` if unknown.
    pub fn limited_by(&self) -> Option<Cause> {
        let rtt_ns = self.client_side.round_trips.samples.min()?;
        self.knows_limits()
            .then(|| self.limits.verdict(rtt_ns))
            .flatten()
    }

    /// The rules of the limits are for captures at the client.
    fn knows_limits(&self) -> bool {
        self.capture_side() == Some(CaptureSide::Client)
    }

    /// Shift for a side's windows; 0 unless both sides offered it (RFC 7323 2.2); `None` if a SYN was cut or not
    /// observed.
    pub fn shift(&self, from_client: bool) -> Option<u8> {
        let (own, other) = (
            self.side(from_client).offer?,
            self.side(!from_client).offer?,
        );
        let offered = |offer: &Offer| offer.known(offer.wscale.is_some());
        match (offered(&own), offered(&other)) {
            (Some(false), _) | (_, Some(false)) => Some(0),
            (Some(true), Some(true)) => own.wscale.map(|shift| shift.min(MAX_SHIFT)),
            _ => None,
        }
    }

    /// Highest window that a side announced after its SYN, in bytes; `None` if its scale is unknown.
    pub fn highest_window(&self, from_client: bool) -> Option<i64> {
        Some(i64::from(self.side(from_client).highest_window?) << self.shift(from_client)?)
    }

    /// The side of the capture; `None` without a complete handshake.
    pub fn capture_side(&self) -> Option<CaptureSide> {
        let (syn, syn_ack, end) = (self.syn_ns?, self.syn_ack_ns?, self.handshake_ns?);
        Some(if syn_ack - syn >= end - syn_ack {
            CaptureSide::Client
        } else {
            CaptureSide::Server
        })
    }

    fn side(&self, from_client: bool) -> &Side {
        if from_client {
            &self.client_side
        } else {
            &self.server_side
        }
    }

    fn side_mut(&mut self, from_client: bool) -> &mut Side {
        if from_client {
            &mut self.client_side
        } else {
            &mut self.server_side
        }
    }

    fn count(&mut self, verdict: &Verdict) {
        match verdict.class {
            Some(Class::Retransmission) => self.classes.retransmission += 1,
            Some(Class::Fast) => self.classes.fast += 1,
            Some(Class::Spurious) => self.classes.spurious += 1,
            Some(Class::OutOfOrder) => self.classes.out_of_order += 1,
            None => {}
        }
    }

    fn times(&mut self, ns: i64, from_client: bool, segment: &Segment<'_>) {
        let flags = segment.header.flags;
        if !from_client {
            self.ttl_server.get_or_insert(segment.ttl);
        }
        if flags.is_syn() && from_client {
            self.syn_ns.get_or_insert(ns);
        } else if flags.is_syn_ack() && !from_client {
            self.syn_ack_ns.get_or_insert(ns);
        } else if from_client && flags.any(Flags::ACK) && self.syn_ack_ns.is_some() {
            self.handshake_ns.get_or_insert(ns);
        }
    }
}

impl Side {
    fn flags(&mut self, segment: &Segment<'_>, verdict: &Verdict) {
        let flags = segment.header.flags;
        let is_syn = flags.any(Flags::SYN);
        self.ece_packets += u64::from(!is_syn && flags.any(Flags::ECE));
        self.cwr_packets += u64::from(!is_syn && flags.any(Flags::CWR));
        self.ce_packets += u64::from(segment.ecn == 3);
        self.resets += u64::from(flags.any(Flags::RST));
        self.fins += u64::from(flags.any(Flags::FIN));
        self.zero_windows += u64::from(verdict.marks.zero_window);
        if !is_syn && !flags.any(Flags::RST) {
            self.highest_window = self.highest_window.max(Some(segment.header.window));
        }
    }

    /// Records the options. Returns the offered ones, which are relevant if the segment is a SYN, and the value and the
    /// echo of the timestamps.
    fn options(
        &mut self,
        ns: i64,
        segment: &Segment<'_>,
        other: &mut Side,
    ) -> (Offer, Option<(u32, u32)>) {
        let flags = segment.header.flags;
        let mut stamps = None;
        let mut offer = Offer {
            ecn_setup: flags.any(Flags::ECE) && flags.any(Flags::CWR) == flags.is_syn(),
            ..Offer::default()
        };
        for option in segment.header.options() {
            let Ok(option) = option else {
                offer.is_cut = segment.header.is_cut();
                break;
            };
            match option {
                TcpOption::MaximumSegmentSize(mss) => offer.mss = Some(mss),
                TcpOption::WindowScale(shift) => offer.wscale = Some(shift),
                TcpOption::SackPermitted => offer.sack_permitted = true,
                TcpOption::Sack(blocks) => {
                    self.sack_packets += 1;
                    self.sack_blocks += blocks.iter().count() as u64;
                }
                TcpOption::Timestamps { value, echo } => {
                    offer.timestamps = true;
                    stamps = Some((value, echo));
                    self.round_trips.sent(value, ns);
                    // The echo is only valid with an ACK (RFC 7323 3.2).
                    if flags.any(Flags::ACK) {
                        other.round_trips.echoed(echo, ns);
                    }
                }
                TcpOption::End | TcpOption::NoOperation | TcpOption::Other { .. } => {}
            }
        }
        (offer, stamps)
    }
}

fn observed(ns: i64, segment: &Segment<'_>) -> ObservedSegment {
    ObservedSegment {
        ns,
        seq: segment.header.seq,
        ack: segment.header.ack,
        flags: segment.header.flags,
        window: segment.header.window,
        length: u32::try_from(segment.length).unwrap_or(u32::MAX),
    }
}
