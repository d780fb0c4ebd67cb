//! Finds a path's origin AS, by the rules of pyasn's converter.
//!
//! - The origin is the last AS of the path. Reserved and private numbers are skipped in favour of the AS before.
//! - A path that ends with an AS_SET has several origins. pyasn returns an arbitrary origin. This program returns the
//!   smallest, so the same table always gives the same result.
//! - Confederation segments at the start of a path are ignored (RFC 5065 4); pyasn finds no origin there. A
//!   confederation segment in the position of the origin, on which pyasn fails, makes the origin unknown.
//! - Any other path that does not start with a sequence has no origin.

use crate::attributes::{Kind, Segment};

/// Returns the origin, and whether it was chosen from a set; `None` if the path has no usable AS.
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

/// pyasn's `is_asn_bogus`: 0, documentation, private and reserved numbers, and all numbers from 1,000,000.
fn is_usable(number: u32) -> bool {
    !matches!(number, 0 | 64_496..=131_071 | 1_000_000..)
}

#[cfg(test)]
mod tests;
