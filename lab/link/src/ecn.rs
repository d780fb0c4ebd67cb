//! Changes the ECN field of IP headers (RFC 3168 5), and the checksum of IPv4.

use crate::config::{Ecn, EcnRule};
use crate::frame::{ETHERNET_HEADER, Packet, UDP};
use std::collections::HashMap;
use std::net::IpAddr;

/// Congestion Experienced. The values 1 and 2 are ECT(1) and ECT(0).
const CE: u8 = 3;

/// The rules by edge address.
#[derive(Debug, Default)]
pub struct Marks {
    rules: HashMap<IpAddr, EcnRule>,
}

impl Marks {
    pub fn new(rules: &[Ecn]) -> Self {
        Self {
            rules: rules.iter().map(|each| (each.ip, each.rule)).collect(),
        }
    }

    /// Applies the rule for the packet's edge to the frame.
    pub fn change(&self, packet: &Packet, frame: &mut [u8]) {
        if packet.protocol != UDP || self.rules.is_empty() {
            return;
        }
        let rule = self.rules.get(&packet.dst).or(self.rules.get(&packet.src));
        match rule {
            Some(EcnRule::Bleached) => set(frame, |_| 0),
            Some(EcnRule::Congested) => set(frame, |field| if field == 0 { 0 } else { CE }),
            None => {}
        }
    }
}

/// Replaces the ECN field in a whole IP packet after the Ethernet header.
fn set(frame: &mut [u8], new: impl Fn(u8) -> u8) {
    let Some(ip) = frame.get_mut(ETHERNET_HEADER..) else {
        return;
    };
    if ip[0] >> 4 == 6 {
        let field = ip[1] >> 4 & 3;
        ip[1] = ip[1] & 0xcf | new(field) << 4;
        return;
    }
    ip[1] = ip[1] & 0xfc | new(ip[1] & 3);
    let length = usize::from(ip[0] & 0x0f) * 4;
    (ip[10], ip[11]) = (0, 0);
    let sum: u32 = ip[..length]
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{parse, tests::udp};

    const CLIENT: [u8; 4] = [198, 18, 0, 11];
    const EDGE: [u8; 4] = [198, 18, 147, 1];

    /// Returns the one's complement sum of an IPv4 header: all ones if the checksum is correct (RFC 791 3.1).
    fn sum(frame: &[u8]) -> u32 {
        let words = frame[ETHERNET_HEADER..ETHERNET_HEADER + 20].chunks_exact(2);
        let sum: u32 = words
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        (sum & 0xffff) + (sum >> 16)
    }

    #[test]
    fn marks_are_removed_or_become_congestion_both_ways() {
        for (rule, field, expected) in [
            (EcnRule::Bleached, 2, 0),
            (EcnRule::Bleached, 3, 0),
            (EcnRule::Congested, 2, 3),
            (EcnRule::Congested, 1, 3),
            (EcnRule::Congested, 0, 0),
        ] {
            let marks = Marks::new(&[Ecn {
                ip: EDGE.into(),
                rule,
            }]);
            for (src, dst) in [(CLIENT, EDGE), (EDGE, CLIENT)] {
                let mut frame = udp(src, 4000, dst, 443);
                frame[ETHERNET_HEADER + 1] = 0xb8 | field;
                let packet = parse(&frame).expect("a whole datagram");
                marks.change(&packet, &mut frame);
                assert_eq!(
                    frame[ETHERNET_HEADER + 1],
                    0xb8 | expected,
                    "{rule:?} {field}"
                );
                assert_eq!(sum(&frame), 0xffff);
            }
        }
    }

    #[test]
    fn ipv6_has_the_field_across_two_bytes_and_no_checksum() {
        let marks = Marks::new(&[Ecn {
            ip: "2001:db8::2".parse().expect("an address"),
            rule: EcnRule::Bleached,
        }]);
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x6a, 0xe5, 0, 0, 0, 8, UDP, 64]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        frame.extend([0x0f, 0xa0, 1, 187, 0, 8, 0, 0]);
        let packet = parse(&frame).expect("a whole datagram");
        let before = frame.clone();
        marks.change(&packet, &mut frame);
        assert_eq!(
            (frame[14], frame[15]),
            (0x6a, 0xc5),
            "class and flow label stay"
        );
        assert_eq!(frame[16..], before[16..]);
    }

    #[test]
    fn other_packets_stay_as_they_are() {
        let marks = Marks::new(&[Ecn {
            ip: EDGE.into(),
            rule: EcnRule::Bleached,
        }]);
        let mut frame = udp(CLIENT, 4000, [198, 18, 147, 2], 443);
        frame[ETHERNET_HEADER + 1] = 2;
        let before = frame.clone();
        let packet = parse(&frame).expect("a whole datagram");
        marks.change(&packet, &mut frame);
        assert_eq!(frame, before);
    }
}
