//! Control messages of Linux (cmsg(3)), read from bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::clock::Stamp;

/// An entry of the error queue (ip(7), IP_RECVERR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedError {
    pub errno: u32,
    pub origin: u8,
    pub kind: u8,
    pub code: u8,
    pub info: u32,
    pub data: u32,
    /// Sender of the ICMP message.
    pub offender: Option<IpAddr>,
}

/// The kernel's report about a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Software stamp of arrival; in the error queue, of sending.
    pub stamp: Option<Stamp>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// Local address at which the datagram arrived.
    pub local: Option<IpAddr>,
    /// ECN field of the IP header (RFC 3168 5), if the port reports it.
    pub ecn: Option<u8>,
    pub error: Option<ExtendedError>,
}

/// cmsg_len (8 bytes), cmsg_level, cmsg_type.
const HEADER: usize = 16;

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|b| i32::from_ne_bytes(*b))
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|b| i64::from_ne_bytes(*b))
}

impl Control {
    /// Reads a message's control buffer; unknown entries are skipped.
    pub fn parse(mut bytes: &[u8]) -> Control {
        let mut control = Control::default();
        while let (Some(length), Some(level), Some(kind)) =
            (i64_at(bytes, 0), i32_at(bytes, 8), i32_at(bytes, 12))
        {
            let Some(data) = usize::try_from(length)
                .ok()
                .and_then(|length| bytes.get(HEADER..length))
            else {
                break;
            };
            control.entry(level, kind, data);
            let next = (HEADER + data.len()).next_multiple_of(8);
            bytes = bytes.get(next..).unwrap_or_default();
        }
        control
    }

    fn entry(&mut self, level: i32, kind: i32, data: &[u8]) {
        match (level, kind) {
            // Three timespecs. The first is the software stamp, or zero.
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                if let (Some(seconds), Some(nanos)) = (i64_at(data, 0), i64_at(data, 8)) {
                    self.stamp =
                        (seconds != 0 || nanos != 0).then_some(seconds * 1_000_000_000 + nanos);
                }
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.ttl = i32_at(data, 0).and_then(|ttl| u8::try_from(ttl).ok());
            }
            // One byte on IPv4, an integer on IPv6.
            (libc::IPPROTO_IP, libc::IP_TOS) => self.ecn = data.first().map(|tos| tos & 3),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                self.ecn = i32_at(data, 0).map(|class| (class & 3) as u8);
            }
            // struct in_pktinfo: interface, our address, destination of the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let address = data.get(8..).and_then(|d| d.first_chunk::<4>());
                self.local = address.map(|a| IpAddr::V4(Ipv4Addr::from(*a)));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                self.local = data
                    .first_chunk::<16>()
                    .map(|a| IpAddr::V6(Ipv6Addr::from(*a)));
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                if let (Some(errno), Some(info), Some(rest)) =
                    (i32_at(data, 0), i32_at(data, 8), i32_at(data, 12))
                {
                    self.error = Some(ExtendedError {
                        errno: errno as u32,
                        origin: data[4],
                        kind: data[5],
                        code: data[6],
                        info: info as u32,
                        data: rest as u32,
                        offender: offender(data),
                    });
                }
            }
            _ => {}
        }
    }
}

/// Returns the address after a sock_extended_err (SO_EE_OFFENDER): a sockaddr_in or sockaddr_in6.
fn offender(entry: &[u8]) -> Option<IpAddr> {
    let address = entry.get(16..)?;
    let family = u16::from_ne_bytes(*address.first_chunk()?);
    match i32::from(family) {
        libc::AF_INET => Some(IpAddr::from(*address.get(4..)?.first_chunk::<4>()?)),
        libc::AF_INET6 => Some(IpAddr::from(*address.get(8..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut out = ((HEADER + data.len()) as u64).to_ne_bytes().to_vec();
        out.extend(level.to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(data);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }

    #[test]
    fn errors_name_their_sender() {
        let mut v4 = vec![111, 0, 0, 0, 2, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut v6 = v4.clone();
        v4.extend((libc::AF_INET as u16).to_ne_bytes());
        v4.extend([0, 0, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        v6.extend((libc::AF_INET6 as u16).to_ne_bytes());
        v6.extend([0; 6]);
        v6.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let of = |level, kind, data: &[u8]| {
            let error = Control::parse(&entry(level, kind, data)).error.unwrap();
            ((error.origin, error.kind, error.code), error.offender)
        };
        let icmp = (2, 3, 3);
        let from = |ip: &str| Some(ip.parse().unwrap());
        assert_eq!(
            of(libc::IPPROTO_IP, libc::IP_RECVERR, &v4),
            (icmp, from("192.0.2.1"))
        );
        assert_eq!(
            of(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &v6),
            (icmp, from("2001:db8::1"))
        );
        assert_eq!(of(libc::IPPROTO_IP, libc::IP_RECVERR, &v4[..20]).1, None);
    }

    #[test]
    fn the_ecn_field_is_two_bits_of_either_family() {
        let of = |level, kind, data: &[u8]| Control::parse(&entry(level, kind, data)).ecn;
        for mark in 0..4u8 {
            let class = 0xb8 | mark;
            assert_eq!(of(libc::IPPROTO_IP, libc::IP_TOS, &[class]), Some(mark));
            let class = i32::from(class).to_ne_bytes();
            assert_eq!(
                of(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class),
                Some(mark)
            );
        }
        assert_eq!(of(libc::IPPROTO_IP, libc::IP_TOS, &[]), None);
        assert_eq!(of(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &[1]), None);
    }

    #[test]
    fn entries_in_any_order() {
        let mut stamp = 5i64.to_ne_bytes().to_vec();
        stamp.extend(7i64.to_ne_bytes());
        stamp.extend([0; 32]);
        let mut bytes = entry(libc::IPPROTO_IP, libc::IP_TTL, &64i32.to_ne_bytes());
        bytes.extend(entry(libc::SOL_SOCKET, 1, &[1, 2, 3]));
        bytes.extend(entry(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &stamp));
        bytes.extend(entry(
            libc::IPPROTO_IP,
            libc::IP_PKTINFO,
            &[1, 0, 0, 0, 0, 0, 0, 0, 127, 0, 0, 1],
        ));
        let control = Control::parse(&bytes);
        assert_eq!(
            (control.stamp, control.ttl),
            (Some(5_000_000_007), Some(64))
        );
        assert_eq!(control.local, Some("127.0.0.1".parse().unwrap()));
        assert_eq!(Control::parse(&bytes[..bytes.len() - 20]).local, None);
        assert_eq!(Control::parse(&[0; 7]), Control::default());
    }
}
