//! Reassembly of IP fragments (RFC 791 3.2, RFC 8200 4.5), in bounded memory.

use std::collections::{HashMap, VecDeque};

use crate::net::ip::{Fragment, FragmentKey};

/// An incomplete datagram is dropped after this time. RFC 8200 4.5 has 60 s, but an observer need not wait as long.
const WAIT_NS: i64 = 30_000_000_000;
/// Maximum number of incomplete datagrams; the oldest is dropped first.
const MAX_WAITING: usize = 256;
/// Maximum number of fragments per datagram.
const MAX_PARTS: usize = 256;
/// Longest payload in a datagram.
const MAX_LENGTH: usize = 65_535;

/// Fragments that wait for others.
#[derive(Default)]
pub struct Fragments {
    waiting: HashMap<FragmentKey, Partial>,
    order: VecDeque<(i64, FragmentKey)>,
    /// Fragments of datagrams that stayed incomplete or were inconsistent.
    pub lost: u64,
}

/// A reassembled packet.
#[derive(Debug)]
pub struct Whole {
    /// The packet, without fragmentation fields.
    pub packet: Vec<u8>,
    /// Total length of the fragments, including copies.
    pub ip_bytes: usize,
}

struct Partial {
    since_ns: i64,
    ip_bytes: usize,
    /// Offset and bytes, in order.
    parts: Vec<(usize, Vec<u8>)>,
    /// Length of the payload, once the last fragment is known.
    end: Option<usize>,
    head: Vec<u8>,
}

impl Fragments {
    /// Adds a fragment that was captured at `ns`. Returns the complete IP packet if it was the last missing one.
    pub fn add(&mut self, ns: i64, fragment: &Fragment<'_>) -> Option<Whole> {
        self.forget(ns);
        let end = fragment.offset + fragment.payload.len();
        if fragment.is_cut || end > MAX_LENGTH {
            self.give_up(&fragment.key);
            self.lost += 1;
            return None;
        }
        let order = &mut self.order;
        let partial = self.waiting.entry(fragment.key).or_insert_with(|| {
            order.push_back((ns, fragment.key));
            Partial {
                since_ns: ns,
                ip_bytes: 0,
                parts: Vec::new(),
                end: None,
                head: Vec::new(),
            }
        });
        if !partial.put(fragment, end) {
            self.give_up(&fragment.key);
            self.lost += 1;
            return None;
        }
        partial.ip_bytes += fragment.ip_bytes;
        if !partial.is_whole() {
            return None;
        }
        let whole = self.waiting.remove(&fragment.key)?;
        self.order.retain(|(_, key)| *key != fragment.key);
        let payload: Vec<u8> = whole.parts.into_iter().flat_map(|(_, part)| part).collect();
        let packet = crate::net::ip::unfragmented(&whole.head, fragment.key.protocol, &payload)?;
        Some(Whole {
            packet,
            ip_bytes: whole.ip_bytes,
        })
    }

    /// Number of fragments that were never reassembled, at the end of a capture.
    pub fn left(&self) -> u64 {
        let waiting: usize = self.waiting.values().map(|p| p.parts.len()).sum();
        self.lost + waiting as u64
    }

    fn forget(&mut self, ns: i64) {
        while let Some(&(since_ns, key)) = self.order.front() {
            if since_ns + WAIT_NS >= ns && self.order.len() <= MAX_WAITING {
                return;
            }
            self.order.pop_front();
            // The same key may be in use again.
            if self
                .waiting
                .get(&key)
                .is_some_and(|p| p.since_ns == since_ns)
            {
                self.give_up(&key);
            }
        }
    }

    fn give_up(&mut self, key: &FragmentKey) {
        if let Some(partial) = self.waiting.remove(key) {
            self.lost += partial.parts.len() as u64;
        }
    }
}

impl Partial {
    /// Adds the fragment. Returns whether it is consistent with the others. A duplicate is consistent.
    fn put(&mut self, fragment: &Fragment<'_>, end: usize) -> bool {
        if !fragment.more {
            if self.end.is_some_and(|known| known != end) {
                return false;
            }
            self.end = Some(end);
        }
        if fragment.offset == 0 {
            self.head = fragment.head.to_vec();
        }
        let at = self.parts.partition_point(|(o, _)| *o < fragment.offset);
        if let Some((offset, part)) = self.parts.get(at)
            && *offset == fragment.offset
        {
            return part == fragment.payload;
        }
        let overlaps_before = at > 0
            && self
                .parts
                .get(at - 1)
                .is_some_and(|(o, part)| o + part.len() > fragment.offset);
        let overlaps_after = self.parts.get(at).is_some_and(|(o, _)| *o < end);
        if overlaps_before || overlaps_after || self.parts.len() >= MAX_PARTS {
            return false;
        }
        self.parts
            .insert(at, (fragment.offset, fragment.payload.to_vec()));
        true
    }

    fn is_whole(&self) -> bool {
        let mut next = 0;
        for (offset, part) in &self.parts {
            if *offset != next {
                return false;
            }
            next += part.len();
        }
        self.end == Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first or the second half of the datagram `number`.
    fn half(number: u32, second: bool) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28];
        packet.extend((number as u16).to_be_bytes());
        packet.extend(if second { [0, 1] } else { [0x20, 0] });
        packet.extend([
            64,
            17,
            0,
            0,
            192,
            0,
            2,
            (number >> 16) as u8,
            198,
            51,
            100,
            1,
        ]);
        packet.extend([7; 8]);
        packet
    }

    fn add(fragments: &mut Fragments, number: u32, second: bool) -> bool {
        let packet = half(number, second);
        let fragment = crate::net::ip::fragment(&packet).unwrap();
        fragments.add(i64::from(number), &fragment).is_some()
    }

    #[test]
    fn whole_datagrams_do_not_count_as_waiting() {
        let mut fragments = Fragments::default();
        assert!(!add(&mut fragments, 0, false));
        for number in 1..2000 {
            assert!(!add(&mut fragments, number, false) && add(&mut fragments, number, true));
        }
        assert!(add(&mut fragments, 0, true));
        assert_eq!((fragments.lost, fragments.order.len()), (0, 0));
    }

    #[test]
    fn the_oldest_of_too_many_goes() {
        let mut fragments = Fragments::default();
        for number in 0..300 {
            assert!(!add(&mut fragments, number, false));
        }
        assert!(!add(&mut fragments, 0, true) && add(&mut fragments, 299, true));
        assert!(fragments.waiting.len() <= MAX_WAITING && fragments.lost > 40);
    }
}
