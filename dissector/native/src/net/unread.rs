//! Unsupported protocols in frames, for the count of frames that are not dissected.

use std::fmt;

/// An unsupported protocol, with the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// EtherType, also in GRE, Geneve and Cisco HDLC.
    EtherType(u16),
    /// Protocol of PPP.
    Ppp(u16),
    /// Protocol of IP.
    Ip(u8),
    /// More nested packets than [`super::ip::MOST_LAYERS`].
    Nested,
}

impl Unread {
    /// Whether it can carry UDP or TCP, so that rows may be missing.
    pub fn may_hide_rows(self) -> bool {
        match self {
            // ARP, RARP, slow protocols, EAPOL, LLDP, PTP, connectivity faults, loopback; a length of IEEE 802.3 with
            // content other than SNAP (spanning tree).
            Unread::EtherType(kind) => {
                kind >= 0x0600
                    && !matches!(
                        kind,
                        0x0806 | 0x8035 | 0x8809 | 0x888e | 0x88cc | 0x88f7 | 0x8902 | 0x9000
                    )
            }
            // Control protocols have 0x8000 and 0xc000.
            Unread::Ppp(kind) => kind < 0x8000,
            // ICMP, IGMP, ICMPv6, no next header, EIGRP, OSPF, PIM, VRRP, SCTP.
            Unread::Ip(kind) => !matches!(kind, 1 | 2 | 58 | 59 | 88 | 89 | 103 | 112 | 132),
            Unread::Nested => true,
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Unread::EtherType(0x88e5) => "MACsec",
            Unread::EtherType(0x894f) => "NSH",
            Unread::Ip(50) => "ESP",
            Unread::Ip(115) => "L2TPv3",
            Unread::EtherType(kind) => return write!(f, "EtherType {kind:#06x}"),
            Unread::Ppp(kind) => return write!(f, "PPP protocol {kind:#06x}"),
            Unread::Ip(kind) => return write!(f, "IP protocol {kind}"),
            Unread::Nested => "too many encapsulations",
        };
        f.write_str(name)
    }
}
