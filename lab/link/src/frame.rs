//! The fields of an Ethernet frame that the emulator needs: IP addresses, ports, length.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const ETHERNET_HEADER: usize = 14;
pub const UDP: u8 = 17;
const TCP: u8 = 6;

/// An IP packet in a frame. Ports are 0 if the protocol has no ports or the fragment does not contain them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub src_port: u16,
    pub dst_port: u16,
    pub ip_length: u16,
}

/// Reads the headers. Returns `None` for anything except a whole IPv4 or IPv6 packet (ARP, padding, truncated
/// frames).
pub fn parse(frame: &[u8]) -> Option<Packet> {
    let ip = frame.get(ETHERNET_HEADER..)?;
    match frame.get(12..14)? {
        [0x08, 0x00] => parse_v4(ip),
        [0x86, 0xdd] => parse_v6(ip),
        _ => None,
    }
}

fn parse_v4(ip: &[u8]) -> Option<Packet> {
    let header: &[u8; 20] = ip.first_chunk()?;
    let header_length = usize::from(header[0] & 0x0f) * 4;
    let ip_length = u16::from_be_bytes([header[2], header[3]]);
    if header[0] >> 4 != 4 || header_length < 20 || usize::from(ip_length) > ip.len() {
        return None;
    }
    let later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let payload = if later_fragment {
        &[]
    } else {
        ip.get(header_length..)?
    };
    let (src_port, dst_port) = ports(header[9], payload);
    Some(Packet {
        src: Ipv4Addr::new(header[12], header[13], header[14], header[15]).into(),
        dst: Ipv4Addr::new(header[16], header[17], header[18], header[19]).into(),
        protocol: header[9],
        src_port,
        dst_port,
        ip_length,
    })
}

fn parse_v6(ip: &[u8]) -> Option<Packet> {
    let header: &[u8; 40] = ip.first_chunk()?;
    let ip_length = u16::from_be_bytes([header[4], header[5]]).checked_add(40)?;
    if header[0] >> 4 != 6 || usize::from(ip_length) > ip.len() {
        return None;
    }
    let address = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&header[at..at + 16]);
        IpAddr::from(Ipv6Addr::from(bytes))
    };
    let (src_port, dst_port) = ports(header[6], &ip[40..]);
    Some(Packet {
        src: address(8),
        dst: address(24),
        protocol: header[6],
        src_port,
        dst_port,
        ip_length,
    })
}

fn ports(protocol: u8, payload: &[u8]) -> (u16, u16) {
    match (protocol, payload) {
        (TCP | UDP, [a, b, c, d, ..]) => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A UDP datagram without payload between two IPv4 addresses.
    pub fn udp(src: [u8; 4], sport: u16, dst: [u8; 4], dport: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, UDP, 0, 0]);
        frame.extend(src);
        frame.extend(dst);
        frame.extend(sport.to_be_bytes());
        frame.extend(dport.to_be_bytes());
        frame.extend([0, 8, 0, 0]);
        frame
    }

    #[test]
    fn reads_ipv4_and_leaves_the_rest() {
        let frame = udp([198, 18, 0, 11], 4000, [198, 18, 16, 1], 443);
        let packet = parse(&frame).expect("a whole datagram");
        assert_eq!(packet.dst, IpAddr::from([198, 18, 16, 1]));
        assert_eq!(
            (packet.src_port, packet.dst_port, packet.ip_length),
            (4000, 443, 28)
        );
        for cut in 0..frame.len() {
            assert_eq!(parse(&frame[..cut]), None, "cut after {cut} bytes");
        }
        let mut arp = frame.clone();
        arp[13] = 0x06;
        assert_eq!(parse(&arp), None);
        let mut later_fragment = frame;
        later_fragment[21] = 1;
        assert_eq!(
            parse(&later_fragment).map(|packet| packet.src_port),
            Some(0)
        );
    }

    #[test]
    fn reads_ipv6() {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, UDP, 64]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        frame.extend([0x0f, 0xa0, 1, 187, 0, 8, 0, 0]);
        let packet = parse(&frame).expect("a whole datagram");
        assert_eq!(
            packet.src,
            "2001:db8::1".parse::<IpAddr>().expect("an address")
        );
        assert_eq!(
            (packet.src_port, packet.dst_port, packet.ip_length),
            (4000, 443, 48)
        );
    }
}
