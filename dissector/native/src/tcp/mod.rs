//! TCP flows: assigns segments to flows, and expires flows.

pub mod analysis;
pub mod flow;
pub mod limits;
pub mod rtt;

use std::collections::VecDeque;
use std::net::SocketAddr;

use firstflight_wire::tcp::Flags;

use crate::flow::expiry::Bounds;
use crate::flow::table::FlowTable;
use crate::net::ip::Segment;

pub use analysis::Verdict;
pub use flow::Flow;

/// Addresses and ports of both ends, the smaller first.
type Tuple = (SocketAddr, SocketAddr);

/// The live flows.
pub struct Tcp {
    table: FlowTable<Tuple, Flow>,
    /// Flows that a new flow on the same ports replaced.
    replaced: VecDeque<Box<Flow>>,
    /// Segments of flows that were written out before.
    pub late: u64,
}

impl Tcp {
    pub fn new(bounds: Bounds) -> Tcp {
        Tcp {
            table: FlowTable::new(bounds),
            replaced: VecDeque::new(),
            late: 0,
        }
    }

    /// Assigns a segment to the flow. Returns the flow and the verdict on the segment, or `None` if the flow was
    /// written out before.
    pub fn segment(&mut self, ns: i64, segment: &Segment<'_>) -> Option<(&Flow, Verdict)> {
        let key = tuple(segment.src, segment.dst);
        let is_reuse = self
            .table
            .get_mut(&key)
            .map(|flow| flow.is_reuse(ns, segment));
        if is_reuse.is_none()
            && !segment.header.flags.any(Flags::SYN)
            && self.table.was_removed(&key)
        {
            self.late += 1;
            return None;
        }
        if is_reuse != Some(false) {
            let mut flow = Flow::new(ns, segment);
            flow.ports_reused = is_reuse == Some(true);
            self.replaced.extend(self.table.insert(key, flow));
        }
        let flow = self.table.get_mut(&key)?;
        let was_closed = flow.is_closed();
        let verdict = flow.segment(ns, segment);
        if flow.is_closed() && !was_closed {
            self.table.closed(key, ns);
        }
        let flow = self.table.get_mut(&key)?;
        Some((flow, verdict))
    }

    /// Removes and returns a flow that is expired at `now_ns`. Call it until it returns `None`.
    pub fn expired(&mut self, now_ns: i64) -> Option<Box<Flow>> {
        self.replaced
            .pop_front()
            .or_else(|| self.table.expired(now_ns))
    }

    /// Removes and returns any remaining flow, at the end of a capture.
    pub fn drain(&mut self) -> Option<Box<Flow>> {
        self.replaced.pop_front().or_else(|| self.table.drain())
    }

    /// Flows removed early due to a limit.
    pub fn evicted(&self) -> u64 {
        self.table.evicted()
    }
}

fn tuple(a: SocketAddr, b: SocketAddr) -> Tuple {
    if a <= b { (a, b) } else { (b, a) }
}
