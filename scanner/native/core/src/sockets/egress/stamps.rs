//! Assigns transmit stamps to datagrams. The kernel numbers the datagrams on a socket that requested a stamp.

use std::collections::VecDeque;

/// Stamps arrive within milliseconds. More open requests than this mean that the oldest stamps were lost.
const MOST: usize = 8192;

/// A datagram that waits for its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampRequest<T> {
    /// The engine's key for the datagram.
    pub key: T,
    /// Wall clock before sending: the stamp cannot be earlier.
    pub earliest: i64,
}

/// Open requests for a port.
#[derive(Debug)]
pub struct StampRequests<T> {
    /// Number of the first request in `open`.
    first: u32,
    open: VecDeque<Option<StampRequest<T>>>,
}

impl<T> Default for StampRequests<T> {
    fn default() -> Self {
        StampRequests {
            first: 0,
            open: VecDeque::new(),
        }
    }
}

impl<T> StampRequests<T> {
    /// Adds the next datagram that requested a stamp.
    pub fn push(&mut self, request: StampRequest<T>) {
        if self.open.len() == MOST {
            self.open.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        self.open.push_back(Some(request));
    }

    /// Returns the request that stamp number `number`, taken at `stamp`, belongs to. Stamps may arrive in any
    /// order.
    pub fn take(&mut self, number: u32, stamp: i64) -> Option<StampRequest<T>> {
        let place = number.wrapping_sub(self.first) as usize;
        let request = self
            .open
            .get_mut(place)?
            .take_if(|request| request.earliest <= stamp)?;
        while let Some(None) = self.open.front() {
            self.open.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        Some(request)
    }

    /// Restarts at number 0, as the kernel does. Open requests are lost.
    pub fn restart(&mut self) {
        *self = StampRequests::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_in_any_order_lost_and_too_early() {
        let request = |key| StampRequest { key, earliest: 100 };
        let mut requests = StampRequests::default();
        (0..4).for_each(|i| requests.push(request(i)));
        assert_eq!(requests.take(2, 150), Some(request(2)));
        assert_eq!(requests.take(0, 99), None, "older than its sending");
        assert_eq!(requests.take(0, 100), Some(request(0)));
        assert_eq!((requests.take(0, 200), requests.take(9, 200)), (None, None));
        assert_eq!(
            requests.take(3, 200),
            Some(request(3)),
            "number 1 never came"
        );
        requests.restart();
        requests.push(request(9));
        assert_eq!(requests.take(0, 300), Some(request(9)));
        (0..MOST + 5).for_each(|_| requests.push(request(1)));
        assert_eq!(requests.take(MOST as u32, 300), Some(request(1)));
    }
}
