//! The server's connection IDs (RFC 9000 5.1): the one in use and the retired ones.

use firstflight_wire::ConnectionId;

/// Maximum number of active IDs: the default of active_connection_id_limit, which we do not send (RFC 9000 18.2).
const MOST_ACTIVE: usize = 2;

/// Maximum number of unacknowledged retirements. It is at least twice the limit of active IDs (RFC 9000 5.1.2), and all
/// retirements fit in a packet.
const MOST_UNACKNOWLEDGED: usize = 8;

/// Maximum number of retirements in a connection, which lasts for seconds.
const MOST_RETIRED: usize = 64;

/// The connection IDs that the server issued.
#[derive(Default)]
pub struct PeerIds {
    /// Sequence numbers and IDs, the oldest first. Packets use the first ID.
    active: Vec<(u64, ConnectionId)>,
    retire_prior_to: u64,
    /// Sequence numbers of retired IDs, in the order of their retirement.
    retired: Vec<u64>,
    /// Number of retirements that were sent, and number of retirements acknowledged without a gap.
    sent: usize,
    acknowledged: usize,
}

impl PeerIds {
    /// Adds the ID number `sequence`: number 0 is in the server's first packets, number 1 in preferred_address.
    pub fn begin(&mut self, sequence: u64, cid: ConnectionId) {
        if !self.active.iter().any(|(known, _)| *known == sequence) {
            self.active.push((sequence, cid));
        }
    }

    /// Returns the destination connection ID of our packets, or `None` before the server has an ID.
    pub fn current(&self) -> Option<ConnectionId> {
        self.active.first().map(|(_, cid)| *cid)
    }

    /// Processes a NEW_CONNECTION_ID frame. Returns an error if it violates the protocol (RFC 9000 19.15).
    pub fn add(
        &mut self,
        sequence: u64,
        retire_prior_to: u64,
        cid: ConnectionId,
    ) -> Result<(), &'static str> {
        if self.current().is_some_and(|current| current.is_empty()) {
            return Err("NEW_CONNECTION_ID of a server with an empty connection ID");
        }
        for (known, of_known) in &self.active {
            if (*known == sequence) != (*of_known == cid) {
                return Err(
                    "a sequence number with two connection IDs, or a connection ID with two sequence numbers",
                );
            }
        }
        let is_new = !self.active.iter().any(|(known, _)| *known == sequence);
        if is_new && sequence >= self.retire_prior_to {
            self.active.push((sequence, cid));
        } else if is_new && !self.retired.contains(&sequence) {
            self.retired.push(sequence);
        }
        self.retire_prior_to = self.retire_prior_to.max(retire_prior_to);
        let (keep, retire) = std::mem::take(&mut self.active)
            .into_iter()
            .partition(|(number, _)| *number >= self.retire_prior_to);
        self.active = keep;
        let retire: Vec<(u64, ConnectionId)> = retire;
        self.retired
            .extend(retire.into_iter().map(|(number, _)| number));
        if self.active.len() > MOST_ACTIVE {
            return Err("more connection IDs than the limit of 2");
        }
        let unacknowledged = self.retired.len() - self.acknowledged;
        if unacknowledged > MOST_UNACKNOWLEDGED || self.retired.len() > MOST_RETIRED {
            return Err("more retired connection IDs than a connection needs");
        }
        Ok(())
    }

    /// Returns the range of retirements to send next.
    pub fn next(&self) -> (usize, usize) {
        (self.sent, self.retired.len())
    }

    /// Returns a range's sequence numbers.
    pub fn retired(&self, range: (usize, usize)) -> &[u64] {
        self.retired.get(range.0..range.1).unwrap_or_default()
    }

    /// Records that the retirements before `end` were sent.
    pub fn mark_sent(&mut self, end: usize) {
        self.sent = self.sent.max(end);
    }

    /// Records that a range of retirements is acknowledged.
    pub fn acknowledge(&mut self, range: (usize, usize)) {
        // Retirements after a gap are sent again with the gap. Retiring an ID twice has no effect.
        if range.0 <= self.acknowledged {
            self.acknowledged = self.acknowledged.max(range.1);
        }
    }

    /// Queues unacknowledged retirements for retransmission. Returns whether there are any.
    pub fn send_again(&mut self) -> bool {
        self.sent = self.acknowledged;
        self.sent < self.retired.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> ConnectionId {
        [number; 8].into()
    }

    #[test]
    fn the_oldest_is_used_until_it_is_retired() {
        /// (sequence, retire_prior_to, ID).
        type Frame = (u64, u64, u8);
        /// Frames, the ID in use afterwards, the retired numbers, the error of the last frame.
        type Case<'a> = (&'a [Frame], u8, &'a [u64], Option<&'a str>);
        let cases: [Case<'_>; 11] = [
            (&[], 0, &[], None),
            (&[(1, 0, 1)], 0, &[], None),
            (&[(1, 0, 1), (1, 0, 1)], 0, &[], None),
            (&[(1, 1, 1)], 1, &[0], None),
            (&[(1, 0, 1), (2, 1, 2)], 1, &[0], None),
            // A frame that arrives after the number was retired: retired once.
            (&[(3, 3, 3), (2, 1, 2), (2, 1, 2)], 3, &[0, 2], None),
            (&[(1, 0, 1), (2, 0, 2)], 0, &[], Some("limit of 2")),
            (&[(0, 0, 1)], 0, &[], Some("two connection IDs")),
            (&[(1, 0, 0)], 0, &[], Some("two sequence numbers")),
            (&[(1, 0, 1), (1, 0, 2)], 0, &[], Some("two connection IDs")),
            (
                &[(9, 9, 9), (10, 9, 10), (11, 9, 11)],
                9,
                &[0],
                Some("limit of 2"),
            ),
        ];
        for (frames, current, retired, wrong) in cases {
            let mut ids = PeerIds::default();
            ids.begin(0, id(0));
            let mut last = Ok(());
            for (sequence, prior, number) in frames {
                assert_eq!(last, Ok(()), "{frames:?}");
                last = ids.add(*sequence, *prior, id(*number));
            }
            assert_eq!(ids.current(), Some(id(current)), "{frames:?}");
            assert_eq!(ids.retired(ids.next()), retired, "{frames:?}");
            match wrong {
                None => assert_eq!(last, Ok(()), "{frames:?}"),
                Some(text) => assert!(last.unwrap_err().contains(text), "{frames:?}"),
            }
        }
    }

    #[test]
    fn a_server_without_an_id_gives_none() {
        let mut ids = PeerIds::default();
        assert_eq!(ids.current(), None);
        ids.begin(0, ConnectionId::new(&[]).unwrap());
        assert!(ids.add(1, 0, id(1)).is_err());
    }

    #[test]
    fn the_id_of_a_preferred_address_counts() {
        let mut ids = PeerIds::default();
        ids.begin(0, id(0));
        ids.begin(1, id(1));
        ids.begin(0, id(7));
        assert_eq!(ids.add(1, 0, id(1)), Ok(()), "the same again");
        assert!(ids.add(2, 0, id(2)).is_err(), "it is the third");
    }

    #[test]
    fn retirements_are_sent_again_until_they_are_acknowledged_and_bounded() {
        let mut ids = PeerIds::default();
        ids.begin(0, id(0));
        let retire = |ids: &mut PeerIds, number: u64| ids.add(number, number, id(number as u8));
        for number in 1..=3 {
            retire(&mut ids, number).unwrap();
        }
        assert_eq!((ids.next(), ids.retired((1, 3))), ((0, 3), &[1, 2][..]));
        ids.mark_sent(3);
        assert_eq!(ids.next(), (3, 3));
        ids.acknowledge((2, 3));
        assert!(ids.send_again() && ids.next() == (0, 3), "behind a gap");
        ids.mark_sent(3);
        ids.acknowledge((0, 2));
        assert!(ids.send_again() && ids.next() == (2, 3));
        ids.acknowledge((2, 3));
        assert!(!ids.send_again());
        for number in 4..=11 {
            assert_eq!(retire(&mut ids, number), Ok(()), "{number}");
        }
        assert!(retire(&mut ids, 12).is_err(), "nine are not acknowledged");
        let mut ids = PeerIds::default();
        ids.begin(0, id(0));
        for number in 1..=64 {
            assert_eq!(retire(&mut ids, number), Ok(()), "{number}");
            ids.acknowledge(ids.next());
            ids.mark_sent(number as usize);
        }
        assert!(retire(&mut ids, 65).is_err(), "without end");
    }
}
