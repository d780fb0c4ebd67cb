//! Rows of TCP flows and of directions with pacing, written when they expire.

use firstflight_wire::tcp::Flags;

use crate::args::Args;
use crate::flow::expiry::Bounds;
use crate::flow::pacing::{Direction, Pacings, Protocol, Sent};
use crate::net::ip::{Datagram, Segment};
use crate::output::rows::pacing::PacingRow;
use crate::output::rows::tcp_flow::TcpFlowRow;
use crate::output::rows::tcp_packet::TcpPacketRow;
use crate::output::{Kind, OutputError, Outputs};
use crate::tcp::Tcp;

const NS_PER_MS: i64 = 1_000_000;
/// How long a closed flow is kept for late packets.
const CLOSING_NS: i64 = 10_000 * NS_PER_MS;

/// TCP connections are idle for longer than QUIC connections, which in practice have idle timeouts of at most a minute.
const TCP_IDLE_FACTOR: i64 = 5;

/// Flows in a capture. Kinds that are not requested have no cost.
pub struct FlowRows<'a> {
    source_file: &'a str,
    train_gap_ns: i64,
    pacing: Option<Pacings>,
    tcp: Option<Tcp>,
}

impl<'a> FlowRows<'a> {
    pub fn new(args: &Args, source_file: &'a str) -> FlowRows<'a> {
        let bounds = Bounds {
            idle_ns: i64::from(args.idle_s) * 1000 * NS_PER_MS,
            closing_ns: CLOSING_NS,
            max_live: args.max_connections as usize,
        };
        let tcp_bounds = Bounds {
            idle_ns: bounds.idle_ns * TCP_IDLE_FACTOR,
            ..bounds
        };
        let wants = |kind| args.kind.contains(&kind);
        let train_gap_ns = (args.train_gap * NS_PER_MS as f64).round() as i64;
        FlowRows {
            source_file,
            train_gap_ns,
            pacing: wants(Kind::Pacing).then(|| Pacings::new(bounds, train_gap_ns)),
            tcp: (wants(Kind::TcpFlow) || wants(Kind::TcpPacket)).then(|| Tcp::new(tcp_bounds)),
        }
    }

    /// Processes a datagram that was captured at `ns`.
    pub fn udp(&mut self, ns: i64, datagram: &Datagram<'_>) {
        if let Some(pacings) = &mut self.pacing {
            let direction = Direction {
                src: datagram.src,
                dst: datagram.dst,
                protocol: Protocol::Udp,
            };
            let sent = Sent {
                ns,
                ip_bytes: datagram.ip_length.bytes as u64,
                payload: u32::try_from(datagram.length).unwrap_or(u32::MAX),
                seq: None,
                begins: false,
            };
            pacings.packet(direction, &sent);
        }
    }

    /// Processes a segment that was captured at `ns` as frame `number`.
    pub fn tcp(
        &mut self,
        (number, ns): (u64, i64),
        segment: &Segment<'_>,
        outputs: &mut Outputs,
    ) -> Result<(), OutputError> {
        if let Some(pacings) = &mut self.pacing {
            let direction = Direction {
                src: segment.src,
                dst: segment.dst,
                protocol: Protocol::Tcp,
            };
            let is_syn = segment.header.flags.any(Flags::SYN);
            let sent = Sent {
                ns,
                ip_bytes: segment.ip_length.bytes as u64,
                payload: u32::try_from(segment.length).unwrap_or(u32::MAX),
                // A SYN uses the number before the first byte.
                seq: Some(segment.header.seq.wrapping_add(u32::from(is_syn))),
                begins: is_syn,
            };
            pacings.packet(direction, &sent);
        }
        let found = self.tcp.as_mut().and_then(|tcp| tcp.segment(ns, segment));
        if let Some((flow, verdict)) = found
            && outputs.wants(Kind::TcpPacket)
        {
            let row = TcpPacketRow::new(self.source_file, (number, ns), flow, segment, &verdict);
            outputs.write(Kind::TcpPacket, &row)?;
        }
        Ok(())
    }

    /// Writes the flows that are expired at `now_ns`.
    #[inline]
    pub fn write_expired(&mut self, now_ns: i64, outputs: &mut Outputs) -> Result<(), OutputError> {
        if self.pacing.is_none() && self.tcp.is_none() {
            return Ok(());
        }
        while let Some(over) = self.pacing.as_mut().and_then(|p| p.expired(now_ns)) {
            let row = PacingRow::new(self.source_file, self.train_gap_ns, &over);
            outputs.write(Kind::Pacing, &row)?;
        }
        while let Some(over) = self.tcp.as_mut().and_then(|t| t.expired(now_ns)) {
            outputs.write(Kind::TcpFlow, &TcpFlowRow::new(self.source_file, &over))?;
        }
        Ok(())
    }

    /// Writes all remaining flows at the end of the capture.
    pub fn write_rest(&mut self, outputs: &mut Outputs) -> Result<(), OutputError> {
        while let Some(over) = self.pacing.as_mut().and_then(Pacings::drain) {
            let row = PacingRow::new(self.source_file, self.train_gap_ns, &over);
            outputs.write(Kind::Pacing, &row)?;
        }
        while let Some(over) = self.tcp.as_mut().and_then(Tcp::drain) {
            outputs.write(Kind::TcpFlow, &TcpFlowRow::new(self.source_file, &over))?;
        }
        Ok(())
    }

    /// Flows written out early due to a limit.
    pub fn evicted(&self) -> u64 {
        self.pacing.as_ref().map_or(0, Pacings::evicted) + self.tcp.as_ref().map_or(0, Tcp::evicted)
    }

    /// TCP segments of flows that were written out before.
    pub fn late(&self) -> u64 {
        self.tcp.as_ref().map_or(0, |tcp| tcp.late)
    }
}
