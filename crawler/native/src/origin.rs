//! Which AS is the origin of a path; the rules are those of pyasn's converter.
//!
//! - The last AS of the path; reserved and private numbers are skipped in favour of the one before.
//! - A path that ends in an AS_SET has several origins; pyasn takes any of them, this program the smallest,
//!   so that the same table always gives the same result.
//! - Segments of a confederation in front of a path are no part of it (RFC 5065 4), where pyasn finds none. In
//!   the place of the origin, on which pyasn fails, they leave it unknown.
//! - Apart from these, a path that does not begin with a sequence has none.

use crate::attributes::{Kind, Segment};

/// The origin, and whether it was chosen from a set; `None` if the path has no usable one.
pub fn of(segments: &[Segment]) -> Option<(u32, bool)> {
    let begin = segments
        .iter()
        .position(|segment| segment.kind != Kind::Confederation)?;
    let segments = segments.get(begin..)?;
    if segments.first()?.kind != Kind::Sequence {
        return None;
    }
    for segment in segments.iter().rev() {
        let mut usable = segment.numbers().rev().filter(|number| is_usable(*number));
        let (origin, is_set) = match segment.kind {
            Kind::Sequence => (usable.next(), false),
            Kind::Set => (usable.min(), true),
            Kind::Confederation => return None,
        };
        if let Some(origin) = origin {
            return Some((origin, is_set));
        }
    }
    None
}

/// pyasn's `is_asn_bogus`: 0, documentation, private and reserved numbers, and all from 1,000,000 on.
fn is_usable(number: u32) -> bool {
    !matches!(number, 0 | 64_496..=131_071 | 1_000_000..)
}

#[cfg(test)]
mod tests;
