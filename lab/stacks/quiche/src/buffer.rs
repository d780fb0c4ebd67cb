//! Buffers of datagrams (UDP_SEGMENT), and their pacing.

use firstflight_listener::DATAGRAM_BYTES;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Maximum time span of a buffer, as in quiche's send quantum when paper 001 measured it (`send_quantum`).
const SPAN: Duration = Duration::from_millis(1);
/// Maximum number of datagrams in a buffer: 65,507 bytes of payload (IPv4).
const MOST: usize = 65_507 / DATAGRAM_BYTES;

/// When a buffer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    most: usize,
    /// `None`: only the number of datagrams counts.
    span: Option<Duration>,
}

impl Limits {
    /// Returns buffers of `segments` datagrams each; `None`: as many as leave within a millisecond. An error is a
    /// sentence.
    pub fn new(segments: Option<usize>) -> Result<Self, String> {
        match segments {
            None => Ok(Self {
                most: MOST,
                span: Some(SPAN),
            }),
            Some(most @ 2..=MOST) => Ok(Self { most, span: None }),
            Some(other) => Err(format!("`gso_segments` is {other}: give 2 to {MOST}")),
        }
    }
}

/// Datagrams to one address, in the order of their launch times. All except the last have DATAGRAM_BYTES.
pub struct Buffer {
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
    /// The launch time of the first datagram.
    pub first: Instant,
    last: Instant,
}

impl Buffer {
    pub fn new(to: SocketAddr, datagram: &[u8], at: Instant) -> Self {
        Self {
            to,
            bytes: datagram.to_vec(),
            first: at,
            last: at,
        }
    }

    /// Adds a datagram with launch time `at`. Returns false if it belongs to the next buffer.
    pub fn add(&mut self, to: SocketAddr, datagram: &[u8], at: Instant, limits: Limits) -> bool {
        let late = limits.span.is_some_and(|span| at >= self.first + span);
        if self.is_full(limits) || to != self.to || late {
            return false;
        }
        self.bytes.extend_from_slice(datagram);
        self.last = self.last.max(at);
        true
    }

    /// Returns whether the buffer waits for more datagrams, even if their launch times are far ahead.
    pub fn is_filling(&self, limits: Limits) -> bool {
        limits.span.is_none() && !self.is_full(limits)
    }

    fn is_full(&self, limits: Limits) -> bool {
        self.count() == limits.most || !self.bytes.len().is_multiple_of(DATAGRAM_BYTES)
    }

    /// Returns the pacing rate in payload bytes per second. At this rate, the last datagram leaves at its launch
    /// time if the first leaves at its own, or at `earliest` if that is later. `None`: all may leave without gaps.
    pub fn rate(&self, earliest: Instant) -> Option<u64> {
        let gaps = self.count() - 1;
        let span = self
            .last
            .saturating_duration_since(self.first.max(earliest));
        if gaps == 0 || span.is_zero() {
            return None;
        }
        let bytes = (gaps * DATAGRAM_BYTES) as u128;
        u64::try_from(bytes * 1_000_000_000 / span.as_nanos()).ok()
    }

    fn count(&self) -> usize {
        self.bytes.len().div_ceil(DATAGRAM_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [u8; DATAGRAM_BYTES] = [1; DATAGRAM_BYTES];
    const US: Duration = Duration::from_micros(1);

    fn peer() -> SocketAddr {
        "192.0.2.1:1000".parse().unwrap()
    }

    #[test]
    fn a_buffer_takes_what_leaves_within_its_span() {
        let at = Instant::now();
        let limits = Limits::new(None).unwrap();
        let mut buffer = Buffer::new(peer(), &WHOLE, at);
        assert!(buffer.add(peer(), &WHOLE, at + 999 * US, limits));
        assert!(!buffer.add(peer(), &WHOLE, at + 1000 * US, limits));
        assert!(!buffer.add("192.0.2.2:1000".parse().unwrap(), &WHOLE, at, limits));
        assert_eq!(buffer.bytes.len(), 2 * DATAGRAM_BYTES);
        assert!(!buffer.is_filling(limits));
        // A shorter datagram must be the last one.
        assert!(buffer.add(peer(), &WHOLE[1..], at, limits));
        assert!(!buffer.add(peer(), &WHOLE, at, limits));
        assert!(!buffer.add(peer(), &[1], at, limits));
    }

    #[test]
    fn a_number_of_segments_counts_alone() {
        let at = Instant::now();
        let limits = Limits::new(Some(3)).unwrap();
        let mut buffer = Buffer::new(peer(), &WHOLE, at);
        assert!(buffer.add(peer(), &WHOLE, at + 5000 * US, limits));
        assert!(buffer.is_filling(limits));
        assert!(buffer.add(peer(), &WHOLE, at + 9000 * US, limits));
        assert!(!buffer.is_filling(limits));
        assert!(!buffer.add(peer(), &WHOLE, at, limits));
        for segments in [0, 1, 55] {
            assert!(Limits::new(Some(segments)).is_err(), "{segments}");
        }
    }

    #[test]
    fn the_kernel_takes_a_full_buffer() {
        let at = Instant::now();
        let limits = Limits::new(None).unwrap();
        let mut buffer = Buffer::new(peer(), &WHOLE, at);
        let added = (0..100)
            .take_while(|_| buffer.add(peer(), &WHOLE, at, limits))
            .count();
        assert_eq!((added, buffer.bytes.len()), (53, 64_800));
    }

    #[test]
    fn the_last_datagram_leaves_at_its_launch_time() {
        let at = Instant::now() + 5000 * US;
        let limits = Limits::new(None).unwrap();
        let mut buffer = Buffer::new(peer(), &WHOLE, at);
        assert_eq!(buffer.rate(at), None);
        assert!(buffer.add(peer(), &WHOLE, at, limits));
        assert_eq!(buffer.rate(at), None);
        assert!(buffer.add(peer(), &WHOLE[..7], at + 600 * US, limits));
        // Two gaps of 300 us, each for one datagram.
        assert_eq!(buffer.rate(at), Some(4_000_000));
        assert_eq!(buffer.rate(at - 5000 * US), Some(4_000_000));
        // The first datagram is late, so the gaps are shorter.
        assert_eq!(buffer.rate(at + 200 * US), Some(6_000_000));
        assert_eq!(buffer.rate(at + 600 * US), None);
    }
}
