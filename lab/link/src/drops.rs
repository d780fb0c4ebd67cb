//! Selects the datagrams to drop on purpose.

use crate::config::{Drop, Rule};
use crate::frame::{Packet, UDP};
use std::collections::HashMap;
use std::net::IpAddr;

/// A flow without a packet for this long is removed. The five-tuple then counts as a new flow.
const IDLE_NS: u64 = 5_000_000_000;

/// Maximum length of an IP packet that `over_1350` passes.
const LARGEST: u16 = 1350;

/// (client, client port, edge address, edge port)
type FiveTuple = (IpAddr, u16, IpAddr, u16);

#[derive(Debug, Clone, Copy)]
struct Flow {
    /// Number of the flow from 1, per (client, edge address).
    number: u64,
    last_ns: u64,
}

/// The rules and the observed flows.
#[derive(Debug, Default)]
pub struct Drops {
    rules: HashMap<IpAddr, Rule>,
    flows: HashMap<FiveTuple, Flow>,
    counts: HashMap<(IpAddr, IpAddr), u64>,
}

impl Drops {
    pub fn new(rules: &[Drop]) -> Self {
        let rules = rules.iter().map(|drop| (drop.ip, drop.rule)).collect();
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Returns whether this packet, arriving at `now_ns`, is dropped.
    pub fn takes(&mut self, packet: &Packet, now_ns: u64) -> bool {
        if packet.protocol != UDP {
            return false;
        }
        if self.rules.get(&packet.dst) == Some(&Rule::OddFlows) {
            let tuple = (packet.src, packet.src_port, packet.dst, packet.dst_port);
            return self.flow(tuple, now_ns).0 % 2 == 1;
        }
        if self.rules.get(&packet.dst) == Some(&Rule::Over1350) {
            return packet.ip_length > LARGEST;
        }
        if self.rules.get(&packet.src) == Some(&Rule::FirstAnswer) {
            let tuple = (packet.dst, packet.dst_port, packet.src, packet.src_port);
            return self.flow(tuple, now_ns).1;
        }
        false
    }

    /// Returns the flow's number, and whether this is its first packet.
    fn flow(&mut self, tuple: FiveTuple, now_ns: u64) -> (u64, bool) {
        if let Some(flow) = self.flows.get_mut(&tuple)
            && now_ns.saturating_sub(flow.last_ns) < IDLE_NS
        {
            flow.last_ns = now_ns;
            return (flow.number, false);
        }
        let count = self.counts.entry((tuple.0, tuple.2)).or_insert(0);
        *count += 1;
        self.flows.insert(
            tuple,
            Flow {
                number: *count,
                last_ns: now_ns,
            },
        );
        (*count, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{parse, tests::udp};

    const CLIENT: [u8; 4] = [198, 18, 0, 11];
    const EDGE: [u8; 4] = [198, 18, 147, 1];

    fn packet(src: [u8; 4], sport: u16, dst: [u8; 4], dport: u16) -> Packet {
        parse(&udp(src, sport, dst, dport)).expect("a whole datagram")
    }

    #[test]
    fn every_other_flow_is_lost_whole() {
        let mut drops = Drops::new(&[Drop {
            ip: EDGE.into(),
            rule: Rule::OddFlows,
        }]);
        let first = packet(CLIENT, 4001, EDGE, 443);
        let second = packet(CLIENT, 4002, EDGE, 443);
        assert!(drops.takes(&first, 0));
        assert!(drops.takes(&first, 1));
        assert!(!drops.takes(&second, 2));
        assert!(!drops.takes(&packet(EDGE, 443, CLIENT, 4002), 3));
        assert!(drops.takes(&packet(CLIENT, 4003, EDGE, 443), 4));
        assert!(
            drops.takes(&packet([198, 18, 0, 12], 4002, EDGE, 443), 5),
            "another client counts separately"
        );
        assert!(
            !drops.takes(&first, IDLE_NS + 2),
            "a five-tuple that returns after a pause is the next flow"
        );
    }

    #[test]
    fn what_is_too_long_is_lost_on_the_way_there() {
        let mut drops = Drops::new(&[Drop {
            ip: EDGE.into(),
            rule: Rule::Over1350,
        }]);
        for (src, dst, ip_length, lost) in [
            (CLIENT, EDGE, 1350, false),
            (CLIENT, EDGE, 1351, true),
            (EDGE, CLIENT, 1500, false),
        ] {
            let found = Packet {
                ip_length,
                ..packet(src, 4001, dst, 443)
            };
            assert_eq!(drops.takes(&found, 0), lost, "{ip_length}");
        }
    }

    #[test]
    fn the_first_answer_is_lost() {
        let mut drops = Drops::new(&[Drop {
            ip: EDGE.into(),
            rule: Rule::FirstAnswer,
        }]);
        assert!(!drops.takes(&packet(CLIENT, 4001, EDGE, 443), 0));
        assert!(drops.takes(&packet(EDGE, 443, CLIENT, 4001), 1));
        assert!(!drops.takes(&packet(EDGE, 443, CLIENT, 4001), 2));
        assert!(drops.takes(&packet(EDGE, 443, CLIENT, 4002), 3));
    }
}
