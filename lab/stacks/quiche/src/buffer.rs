//! Buffers of datagrams (UDP_SEGMENT), and their pacing.

use firstflight_listener::DATAGRAM_BYTES;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Maximum time span of a buffer, as in quiche's send quantum when paper 001 measured it (`send_quantum`).
const SPAN: Duration = Duration::from_millis(1);
/// Maximum number of datagrams in a buffer: 65,507 bytes of payload (IPv4).
const MOST: usize = 65_507 / DATAGRAM_BYTES;

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
    pub fn add(&mut self, to: SocketAddr, datagram: &[u8], at: Instant) -> bool {
        let full = self.count() == MOST || !self.bytes.len().is_multiple_of(DATAGRAM_BYTES);
        if full || to != self.to || at >= self.first + SPAN {
            return false;
        }
        self.bytes.extend_from_slice(datagram);
        self.last = self.last.max(at);
        true
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
        let mut buffer = Buffer::new(peer(), &WHOLE, at);
        assert!(buffer.add(peer(), &WHOLE, at + 999 * US));
        assert!(!buffer.add(peer(), &WHOLE, at + 1000 * US));
        assert!(!buffer.add("192.0.2.2:1000".parse().unwrap(), &WHOLE, at));
        assert_eq!(buffer.bytes.len(), 2 * DATAGRAM_BYTES);
        // A shorter datagram must be the last one.
        assert!(buffer.add(peer(), &WHOLE[1..], at));
        assert!(!buffer.add(peer(), &WHOLE, at));
        assert!(!buffer.add(peer(), &[1], at));
    }

    #[test]
    fn the_kernel_takes_a_full_buffer() {
        let at = Instant::now();
        let mut buffer = Buffer::new(peer(), &WHOLE, at);
        let added = (0..100)
            .take_while(|_| buffer.add(peer(), &WHOLE, at))
            .count();
        assert_eq!((added, buffer.bytes.len()), (53, 64_800));
    }

    #[test]
    fn the_last_datagram_leaves_at_its_launch_time() {
        let at = Instant::now() + 5000 * US;
        let mut buffer = Buffer::new(peer(), &WHOLE, at);
        assert_eq!(buffer.rate(at), None);
        assert!(buffer.add(peer(), &WHOLE, at));
        assert_eq!(buffer.rate(at), None);
        assert!(buffer.add(peer(), &WHOLE[..7], at + 600 * US));
        // Two gaps of 300 us, each for one datagram.
        assert_eq!(buffer.rate(at), Some(4_000_000));
        assert_eq!(buffer.rate(at - 5000 * US), Some(4_000_000));
        // The first datagram is late, so the gaps are shorter.
        assert_eq!(buffer.rate(at + 200 * US), Some(6_000_000));
        assert_eq!(buffer.rate(at + 600 * US), None);
    }
}
