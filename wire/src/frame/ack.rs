//! ACK frames (RFC 9000 19.3). Parsing checks them; their ranges are read on demand.

use std::ops::RangeInclusive;

use crate::{Error, Reader};

/// A checked ACK frame (0x02, or 0x03 with ECN counts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    pub largest: u64,
    /// ACK Delay as on the wire, in units of 2^ack_delay_exponent microseconds.
    pub delay: u64,
    /// First ACK Range: number of acknowledged packets immediately before `largest`.
    pub first_range: u64,
    /// Number of further ranges.
    pub range_count: u64,
    /// ECT(0), ECT(1) and CE counts in a 0x03 frame.
    pub ecn: Option<[u64; 3]>,
    /// Gap and length pairs.
    ranges: &'a [u8],
}

impl<'a> Ack<'a> {
    /// Parses the fields after the frame type.
    pub(super) fn parse(r: &mut Reader<'a>, with_ecn: bool) -> Result<Ack<'a>, Error> {
        let largest = r.varint()?;
        let delay = r.varint()?;
        let range_count = r.varint()?;
        let first_range = r.varint()?;
        let below_zero = Error::Malformed("ACK range below zero");
        let mut smallest = largest.checked_sub(first_range).ok_or(below_zero)?;
        let all = r.rest();
        // Each pair has at least two bytes, so a count that is too large fails with Truncated.
        for _ in 0..range_count {
            let (gap, length) = (r.varint()?, r.varint()?);
            smallest = smallest
                .checked_sub(gap + 2)
                .and_then(|n| n.checked_sub(length))
                .ok_or(below_zero)?;
        }
        let ranges = &all[..all.len() - r.len()];
        let ecn = if with_ecn {
            Some([r.varint()?, r.varint()?, r.varint()?])
        } else {
            None
        };
        Ok(Ack {
            largest,
            delay,
            first_range,
            range_count,
            ecn,
            ranges,
        })
    }

    /// Returns the acknowledged packet numbers, largest range first.
    pub fn ranges(&self) -> AckRanges<'a> {
        let first = self.largest.saturating_sub(self.first_range)..=self.largest;
        AckRanges {
            next: Some(first),
            rest: Reader::new(self.ranges),
        }
    }

    /// Returns whether `packet_number` is acknowledged.
    pub fn contains(&self, packet_number: u64) -> bool {
        self.ranges().any(|range| range.contains(&packet_number))
    }
}

/// Iterator over the ranges of an [`Ack`].
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    next: Option<RangeInclusive<u64>>,
    rest: Reader<'a>,
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let range = self.next.take()?;
        if let (Ok(gap), Ok(length)) = (self.rest.varint(), self.rest.varint()) {
            let largest = range.start().checked_sub(gap + 2);
            self.next = largest.and_then(|l| Some(l.checked_sub(length)?..=l));
        }
        Some(range)
    }
}
