//! A sender's pacing: gaps between packets and trains of packets, per direction in a five-tuple.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::flow::coverage::Coverage;
use crate::flow::expiry::Bounds;
use crate::flow::quantiles::Durations;
use crate::flow::spread::{GapPoints, Lengths};
use crate::flow::table::{FlowTable, Live};

/// Maximum number of gaps kept individually per direction; with more, quantiles are from a histogram.
const EXACT_GAPS: usize = 1 << 17;
/// Maximum number of gaps kept individually for all directions in a capture together.
const EXACT_GAPS_IN_ALL: usize = 1 << 22;
/// Maximum number of distinct packet lengths counted per direction; with more, it has no most frequent length.
const LENGTHS: usize = 1 << 11;
/// Maximum number of distinct packet lengths counted for all directions in a capture together.
const LENGTHS_IN_ALL: usize = 1 << 20;

/// Transport protocols that have ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// One direction of a five-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Direction {
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub protocol: Protocol,
}

/// A packet's properties that pacing needs.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub ns: i64,
    /// Total length of the IP packet.
    pub ip_bytes: u64,
    /// Bytes of UDP or TCP payload.
    pub payload: u32,
    /// TCP: sequence number of the first payload byte, or, in a SYN without payload, of the next byte.
    pub seq: Option<u32>,
    /// `seq` is the first number of the stream.
    pub begins: bool,
}

/// A direction's counts.
#[derive(Clone, Debug)]
pub struct Pacing {
    pub direction: Direction,
    pub start_ns: i64,
    pub last_ns: i64,
    pub packets: u64,
    pub ip_bytes: u64,
    /// Payload bytes; of TCP, each byte of the stream once.
    pub payload_bytes: u64,
    pub gaps: Durations,
    pub points: GapPoints,
    pub lengths: Lengths,
    /// Number of finished trains per length in packets.
    trains: BTreeMap<u64, u64>,
    train: u64,
    seen: Coverage,
}

impl Live for Pacing {
    fn last_ns(&self) -> i64 {
        self.last_ns
    }
}

impl Pacing {
    fn new(direction: Direction, ns: i64) -> Pacing {
        Pacing {
            direction,
            start_ns: ns,
            last_ns: ns,
            packets: 0,
            ip_bytes: 0,
            payload_bytes: 0,
            gaps: Durations::default(),
            points: GapPoints::default(),
            lengths: Lengths::default(),
            trains: BTreeMap::new(),
            train: 0,
            seen: Coverage::default(),
        }
    }

    fn packet(&mut self, sent: &Sent, train_gap_ns: i64) {
        if self.packets > 0 {
            let gap = sent.ns - self.last_ns;
            self.gaps.add(gap);
            self.points.add(gap);
            if gap >= train_gap_ns {
                *self.trains.entry(self.train).or_default() += 1;
                self.train = 0;
            }
        }
        self.train += 1;
        self.packets += 1;
        self.last_ns = sent.ns;
        self.ip_bytes += sent.ip_bytes;
        self.lengths.add(sent.ip_bytes);
        let new = sent.seq.map_or(sent.payload, |seq| {
            if sent.begins && self.payload_bytes == 0 {
                self.seen = Coverage::starting_at(seq);
            }
            self.seen.add(seq, sent.payload)
        });
        self.payload_bytes += u64::from(new);
    }

    /// Number of trains per length in packets, including the unfinished train.
    pub fn trains(&self) -> BTreeMap<u64, u64> {
        let mut trains = self.trains.clone();
        if self.train > 0 {
            *trains.entry(self.train).or_default() += 1;
        }
        trains
    }

    /// Share of packets in trains of at most `length`.
    pub fn share_in_trains(&self, length: u64) -> f64 {
        let trains = self.trains();
        let packets: u64 = trains.range(..=length).map(|(n, trains)| n * trains).sum();
        packets as f64 / self.packets as f64
    }

    /// Payload in bits per second, from the first to the last packet; `None` if no time passed.
    pub fn goodput_bps(&self) -> Option<i64> {
        crate::flow::volume::bits_per_second(self.payload_bytes, self.last_ns - self.start_ns)
    }
}

/// The directions that are measured.
pub struct Pacings {
    table: FlowTable<Direction, Pacing>,
    train_gap_ns: i64,
    kept: usize,
    lengths: usize,
}

impl Pacings {
    /// `train_gap_ns`: the shortest gap that finishes a train.
    pub fn new(bounds: Bounds, train_gap_ns: i64) -> Pacings {
        Pacings {
            table: FlowTable::new(bounds),
            train_gap_ns,
            kept: 0,
            lengths: 0,
        }
    }

    pub fn packet(&mut self, direction: Direction, sent: &Sent) {
        if self.table.get_mut(&direction).is_none() {
            self.table
                .insert(direction, Pacing::new(direction, sent.ns));
        }
        let Some(pacing) = self.table.get_mut(&direction) else {
            return;
        };
        let before = pacing.gaps.kept();
        let lengths = pacing.lengths.kept();
        pacing.packet(sent, self.train_gap_ns);
        self.kept += pacing.gaps.kept() - before;
        if pacing.gaps.kept() > EXACT_GAPS || self.kept > EXACT_GAPS_IN_ALL {
            self.kept -= pacing.gaps.kept();
            pacing.gaps.compress();
        }
        self.lengths += pacing.lengths.kept() - lengths;
        if pacing.lengths.kept() > LENGTHS || self.lengths > LENGTHS_IN_ALL {
            self.lengths -= pacing.lengths.kept();
            pacing.lengths.give_up();
        }
    }

    /// Removes and returns a direction that is expired at `now_ns`. Call it until it returns `None`.
    pub fn expired(&mut self, now_ns: i64) -> Option<Box<Pacing>> {
        let over = self.table.expired(now_ns);
        self.forget(over)
    }

    /// Removes and returns any remaining direction, at the end of a capture.
    pub fn drain(&mut self) -> Option<Box<Pacing>> {
        let over = self.table.drain();
        self.forget(over)
    }

    /// Directions removed early due to a limit.
    pub fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    fn forget(&mut self, over: Option<Box<Pacing>>) -> Option<Box<Pacing>> {
        self.kept -= over.as_ref().map_or(0, |pacing| pacing.gaps.kept());
        self.lengths -= over.as_ref().map_or(0, |pacing| pacing.lengths.kept());
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        idle_ns: 60_000_000_000,
        closing_ns: 60_000_000_000,
        max_live: 100,
    };

    fn pacing(times: &[i64]) -> Box<Pacing> {
        let direction = Direction {
            src: ([192, 0, 2, 1], 1).into(),
            dst: ([192, 0, 2, 2], 2).into(),
            protocol: Protocol::Udp,
        };
        let mut pacings = Pacings::new(BOUNDS, 100);
        for &ns in times {
            let sent = Sent {
                ns,
                ip_bytes: 128,
                payload: 100,
                seq: None,
                begins: false,
            };
            pacings.packet(direction, &sent);
        }
        pacings.drain().unwrap()
    }

    #[test]
    fn a_train_ends_with_a_gap_of_the_threshold() {
        let p = pacing(&[0, 99, 199, 200, 300, 1000]);
        assert_eq!(p.trains(), BTreeMap::from([(1, 2), (2, 2)]));
        assert_eq!(p.share_in_trains(1), 2.0 / 6.0);
        assert_eq!(p.share_in_trains(5), 1.0);
        assert_eq!(p.gaps.quantiles([0.5]), [Some(100)]);
    }

    #[test]
    fn a_lone_packet_is_a_train() {
        let p = pacing(&[5]);
        assert_eq!(p.trains(), BTreeMap::from([(1, 1)]));
        assert_eq!((p.goodput_bps(), p.share_in_trains(5)), (None, 1.0));
    }

    #[test]
    fn the_first_bytes_of_a_stream_count_if_later_ones_came_before_them() {
        for (begins, payload_bytes) in [(true, 2000), (false, 1000)] {
            let mut pacings = Pacings::new(BOUNDS, 100);
            let direction = pacing(&[0]).direction;
            // The last SYN is a late copy.
            for (begins, seq, payload) in [
                (begins, 1, 0),
                (false, 1001, 1000),
                (false, 1, 1000),
                (begins, 1, 0),
                (false, 1, 1000),
            ] {
                let sent = Sent {
                    ns: 0,
                    ip_bytes: 40,
                    payload,
                    seq: Some(seq),
                    begins,
                };
                pacings.packet(direction, &sent);
            }
            assert_eq!(pacings.drain().unwrap().payload_bytes, payload_bytes);
        }
    }

    #[test]
    fn too_many_lengths_are_given_up() {
        for (lengths, mode) in [(LENGTHS, Some((LENGTHS as u64, 1))), (LENGTHS + 1, None)] {
            let mut pacings = Pacings::new(BOUNDS, 100);
            let direction = pacing(&[0]).direction;
            for ip_bytes in 1..=lengths as u64 {
                let sent = Sent {
                    ns: 0,
                    ip_bytes,
                    payload: 0,
                    seq: None,
                    begins: false,
                };
                pacings.packet(direction, &sent);
            }
            assert_eq!(pacings.lengths, mode.map_or(0, |_| LENGTHS));
            assert_eq!(pacings.drain().unwrap().lengths.mode(), mode);
            assert_eq!(pacings.lengths, 0);
        }
    }

    #[test]
    fn many_gaps_are_kept_in_buckets() {
        let times: Vec<i64> = (0..=EXACT_GAPS as i64 + 5).map(|n| n * 1000).collect();
        let p = pacing(&times);
        assert!(!p.gaps.is_exact());
        assert_eq!(p.gaps.quantiles([0.5]), [Some(1000)]);
        assert_eq!(p.trains(), BTreeMap::from([(1, times.len() as u64)]));
    }
}
