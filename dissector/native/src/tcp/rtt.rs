//! Round trips from TCP timestamps (RFC 7323): from the first packet with a value to the first packet that echoes it.

use std::collections::VecDeque;

use crate::flow::coverage::before;
use crate::flow::quantiles::Durations;

/// Maximum number of values that wait for their echo; beyond it, new ones are ignored.
const MAX_WAITING: usize = 1024;
/// Maximum number of samples kept individually.
const EXACT_SAMPLES: usize = 1 << 14;

/// Values that one side sent, and the samples from their echoes.
#[derive(Clone, Debug, Default)]
pub struct RoundTrips {
    waiting: VecDeque<(u32, i64)>,
    newest: Option<u32>,
    pub samples: Durations,
}

impl RoundTrips {
    /// This side sent `value`.
    pub fn sent(&mut self, value: u32, ns: i64) {
        let is_new = self.newest.is_none_or(|newest| before(newest, value));
        if is_new && self.waiting.len() < MAX_WAITING {
            self.newest = Some(value);
            self.waiting.push_back((value, ns));
        }
    }

    /// The other side echoed `value`.
    pub fn echoed(&mut self, value: u32, ns: i64) {
        while let Some(&(oldest, sent_ns)) =
            self.waiting.front().filter(|(v, _)| !before(value, *v))
        {
            self.waiting.pop_front();
            if oldest == value {
                self.samples.add(ns - sent_ns);
                if self.samples.kept() > EXACT_SAMPLES {
                    self.samples.compress();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_packet_to_first_echo() {
        let mut trips = RoundTrips::default();
        for (value, ns) in [(7, 0), (7, 5), (8, 10), (9, 20)] {
            trips.sent(value, ns);
        }
        for (value, ns) in [(7, 100), (7, 130), (9, 140), (8, 150)] {
            trips.echoed(value, ns);
        }
        assert_eq!(trips.samples.count(), 2);
        assert_eq!(
            (trips.samples.min(), trips.samples.max()),
            (Some(100), Some(120))
        );
    }
}
