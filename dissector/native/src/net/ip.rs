//! IPv4 and IPv6 packets: the UDP datagram, TCP segment or ICMP error in them (RFC 791, 8200, 768, 792,
//! 4443).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use firstflight_wire::{ConnectionId, Reader, tcp};

use super::unread::Unread;
use super::{link, tunnel};

/// The length that volumes count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpLength {
    /// Total length of the IP packet as sent, header included.
    pub bytes: usize,
    /// The header has zero (segmentation offload), so `bytes` is the length of the captured frame.
    pub is_guessed: bool,
}

/// A UDP datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    pub src: SocketAddr,
    pub dst: SocketAddr,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Captured bytes of the payload.
    pub payload: &'a [u8],
    /// Length of the payload as sent; larger than `payload.len()` if the capture cut it.
    pub length: usize,
    pub ip_length: IpLength,
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    pub src: SocketAddr,
    pub dst: SocketAddr,
    /// TTL or hop limit.
    pub ttl: u8,
    /// ECN field of the IP header (RFC 3168 5): 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    pub header: tcp::Header<'a>,
    /// Bytes of payload as sent.
    pub length: usize,
    pub ip_length: IpLength,
}

/// An ICMP message that quotes a UDP datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpError {
    pub kind: u8,
    pub code: u8,
    /// Whether it reports a closed port, which is final (RFC 792, RFC 4443 3.1).
    pub port_unreachable: bool,
    /// Source and destination of the quoted datagram.
    pub quoted_src: SocketAddr,
    pub quoted_dst: SocketAddr,
    /// Source connection ID in the quote, if it has a long header and the quote is long enough.
    pub quoted_scid: Option<ConnectionId>,
    /// Sender of the message.
    pub source: IpAddr,
}

/// Content of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    Udp(Datagram<'a>),
    Tcp(Segment<'a>),
    Icmp(IcmpError),
    /// No captured content, or ICMP without a quoted UDP datagram.
    Other,
    /// An unsupported protocol.
    Unread(Unread),
    /// A fragment: see [`fragment`].
    Fragment(&'a [u8]),
    /// Truncated or inconsistent headers.
    Broken,
}

impl Content<'_> {
    /// Marks the packet as reassembled from fragments with `ip_bytes` bytes together.
    pub fn came_in(&mut self, ip_bytes: usize) {
        let sent = IpLength {
            bytes: ip_bytes,
            is_guessed: false,
        };
        match self {
            Content::Udp(datagram) => datagram.ip_length = sent,
            Content::Tcp(segment) => segment.ip_length = sent,
            _ => {}
        }
    }
}

/// Maximum number of nested packets that are parsed; networks use two or three.
pub const MOST_LAYERS: u8 = 8;

const ICMP: u8 = 1;
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const ETHERIP: u8 = 97;
const MPLS: u8 = 137;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Identifies a packet's fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    pub protocol: u8,
}

/// A fragment of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    pub key: FragmentKey,
    /// Offset of the fragment's payload in the packet's payload.
    pub offset: usize,
    /// More fragments follow.
    pub more: bool,
    pub payload: &'a [u8],
    /// The capture cut the fragment.
    pub is_cut: bool,
    /// Total length of the fragment, header included.
    pub ip_bytes: usize,
    /// The fixed part of the IP header.
    pub head: &'a [u8],
}

/// Parses the fragment in `packet`; `None` if it is whole or broken.
pub fn fragment(packet: &[u8]) -> Option<Fragment<'_>> {
    let header = header(packet, 0).filter(|h| h.is_fragment)?;
    let head = packet.get(..if header.src.is_ipv4() { 20 } else { 40 })?;
    let key = FragmentKey {
        src: header.src,
        dst: header.dst,
        id: header.fragment_id,
        protocol: header.protocol,
    };
    Some(Fragment {
        key,
        offset: header.fragment_offset,
        more: header.more_fragments,
        payload: header.payload,
        is_cut: header.payload.len() < header.length,
        ip_bytes: header.ip_length.bytes,
        head,
    })
}

/// Builds the packet from `head` (of the first fragment) and the fragments' `payload`; `None` if it is too long for an
/// IP packet.
pub fn unfragmented(head: &[u8], protocol: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let mut packet = head.to_vec();
    match *packet.first()? >> 4 {
        4 => {
            let total = u16::try_from(head.len() + payload.len()).ok()?;
            // Options are omitted, so the header has five words.
            *packet.first_mut()? = 0x45;
            packet.get_mut(2..4)?.copy_from_slice(&total.to_be_bytes());
            packet.get_mut(6..8)?.fill(0);
        }
        _ => {
            let length = u16::try_from(payload.len()).ok()?;
            packet.get_mut(4..6)?.copy_from_slice(&length.to_be_bytes());
            *packet.get_mut(6)? = protocol;
        }
    }
    packet.extend_from_slice(payload);
    Some(packet)
}

/// The relevant IP header fields.
struct Header<'a> {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    ttl: u8,
    ecn: u8,
    is_fragment: bool,
    /// In bytes.
    fragment_offset: usize,
    more_fragments: bool,
    fragment_id: u32,
    payload: &'a [u8],
    /// Length of the payload as sent.
    length: usize,
    ip_length: IpLength,
}

/// Returns the content of `packet` (an IP packet, possibly followed by link padding), also inside tunnels: GRE, IP in
/// IP (RFC 2003, 2473, 4213), MPLS (RFC 4023), EtherIP, VXLAN, Geneve and GTP-U. `cut` is the number of missing bytes.
pub fn content(packet: &[u8], cut: usize) -> Content<'_> {
    inner_content(packet, cut, MOST_LAYERS)
}

/// As [`content`], with at most `layers` more nested packets.
fn inner_content(packet: &[u8], cut: usize, layers: u8) -> Content<'_> {
    let Some(header) = header(packet, cut) else {
        return Content::Broken;
    };
    if header.is_fragment {
        return Content::Fragment(packet);
    }
    let mut missing = header.length - header.payload.len();
    let inner = match header.protocol {
        UDP => {
            let Some(datagram) = udp(&header) else {
                return Content::Broken;
            };
            let (port, payload) = (datagram.dst.port(), datagram.payload);
            match tunnel::in_udp(port, payload, datagram.length) {
                Some(inner) => {
                    missing = datagram.length - payload.len();
                    inner
                }
                None => return Content::Udp(datagram),
            }
        }
        TCP => return tcp(&header).map_or(Content::Broken, Content::Tcp),
        ICMP | ICMPV6 => {
            return icmp(&header, header.protocol == ICMPV6).map_or(Content::Other, Content::Icmp);
        }
        IPV4 | IPV6 => Ok(header.payload),
        GRE => tunnel::gre(header.payload),
        MPLS => link::mpls(header.payload),
        ETHERIP => tunnel::etherip(header.payload),
        other => Err(Some(Unread::Ip(other))),
    };
    match inner {
        Ok(inner) if layers > 0 => inner_content(inner, missing, layers - 1),
        Ok(_) => Content::Unread(Unread::Nested),
        Err(Some(unread)) => Content::Unread(unread),
        Err(None) => Content::Broken,
    }
}

#[inline(always)]
fn header(packet: &[u8], cut: usize) -> Option<Header<'_>> {
    match packet.first()? >> 4 {
        4 => ipv4(packet, cut),
        6 => ipv6(packet, cut),
        _ => None,
    }
}

#[inline(always)]
fn ipv4(packet: &[u8], cut: usize) -> Option<Header<'_>> {
    let fixed = packet.first_chunk::<20>()?;
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    // A total length of zero belongs to a segment that the network card had yet to split: use the length on the wire.
    let stated = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let ip_length = ip_length(stated, stated, packet.len() + cut);
    let length = ip_length
        .bytes
        .checked_sub(header_len)
        .filter(|_| header_len >= 20)?;
    let payload = packet.get(header_len..)?;
    let place = u16::from_be_bytes([fixed[6], fixed[7]]);
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *fixed;
    Some(Header {
        src: Ipv4Addr::new(s0, s1, s2, s3).into(),
        dst: Ipv4Addr::new(d0, d1, d2, d3).into(),
        protocol: fixed[9],
        ttl: fixed[8],
        ecn: fixed[1] & 3,
        // More Fragments, or an offset.
        is_fragment: place & 0x3fff != 0,
        fragment_offset: usize::from(place & 0x1fff) * 8,
        more_fragments: place & 0x2000 != 0,
        fragment_id: u32::from(u16::from_be_bytes([fixed[4], fixed[5]])),
        payload: &payload[..payload.len().min(length)],
        length,
        ip_length,
    })
}

/// `stated`: the length in the header; `total`: the packet's length derived from it; `seen`: the length on the wire.
fn ip_length(stated: usize, total: usize, seen: usize) -> IpLength {
    IpLength {
        bytes: if stated == 0 { seen } else { total },
        is_guessed: stated == 0,
    }
}

fn ipv6(packet: &[u8], cut: usize) -> Option<Header<'_>> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    const MOBILITY: u8 = 135;
    const HIP: u8 = 139;
    const SHIM6: u8 = 140;
    const EXTENSIONS: [u8; 8] = [
        HOP_BY_HOP,
        ROUTING,
        FRAGMENT,
        AUTHENTICATION,
        DESTINATION,
        MOBILITY,
        HIP,
        SHIM6,
    ];
    let mut r = Reader::new(packet);
    let first = r.u32().ok()?;
    let stated = usize::from(r.u16().ok()?);
    let (mut protocol, ttl) = (r.u8().ok()?, r.u8().ok()?);
    let src = Ipv6Addr::from(r.array::<16>().ok()?);
    let dst = Ipv6Addr::from(r.array::<16>().ok()?);
    let ip_length = ip_length(stated, stated + 40, packet.len() + cut);
    let mut length = ip_length.bytes.checked_sub(40)?;
    let mut is_fragment = false;
    let (mut place, mut fragment_id) = (0, 0);
    while !is_fragment && EXTENSIONS.contains(&protocol) {
        let extension = protocol;
        protocol = r.u8().ok()?;
        let second = usize::from(r.u8().ok()?);
        let size = match extension {
            FRAGMENT => 8,
            // In units of four bytes (RFC 4302 2.2).
            AUTHENTICATION => 4 * (second + 2),
            _ => 8 * (second + 1),
        };
        let rest = r.bytes(size - 2).ok()?;
        // Offset and M flag are zero in an atomic fragment (RFC 6946), which is a whole packet.
        if let (FRAGMENT, &[high, low, a, b, c, d]) = (extension, rest) {
            place = u16::from_be_bytes([high, low]);
            fragment_id = u32::from_be_bytes([a, b, c, d]);
            is_fragment = place & 0xfff9 != 0;
        }
        length = length.checked_sub(size)?;
    }
    let payload = &r.rest()[..r.len().min(length)];
    Some(Header {
        src: src.into(),
        dst: dst.into(),
        protocol,
        ttl,
        // Version, traffic class, flow label: the class's lowest two bits.
        ecn: (first >> 20) as u8 & 3,
        is_fragment,
        fragment_offset: usize::from(place & 0xfff8),
        more_fragments: place & 1 != 0,
        fragment_id,
        payload,
        length,
        ip_length,
    })
}

#[inline(always)]
fn udp<'a>(header: &Header<'a>) -> Option<Datagram<'a>> {
    let mut r = Reader::new(header.payload);
    let (src_port, dst_port) = (r.u16().ok()?, r.u16().ok()?);
    let stated = usize::from(r.u16().ok()?);
    r.u16().ok()?;
    // Zero belongs to a jumbogram or to a segment before it is split. Other lengths cover the header and fit the IP
    // packet.
    let length = if stated == 0 { header.length } else { stated }.checked_sub(8)?;
    if length > header.length.checked_sub(8)? {
        return None;
    }
    Some(Datagram {
        src: SocketAddr::new(header.src, src_port),
        dst: SocketAddr::new(header.dst, dst_port),
        ttl: header.ttl,
        payload: &r.rest()[..r.len().min(length)],
        length,
        ip_length: header.ip_length,
    })
}

fn tcp<'a>(header: &Header<'a>) -> Option<Segment<'a>> {
    let segment = tcp::Header::parse(header.payload).ok()?;
    Some(Segment {
        src: SocketAddr::new(header.src, segment.src_port),
        dst: SocketAddr::new(header.dst, segment.dst_port),
        ttl: header.ttl,
        ecn: header.ecn,
        header: segment,
        length: header.length.checked_sub(segment.length)?,
        ip_length: header.ip_length,
    })
}

fn icmp(outer: &Header<'_>, v6: bool) -> Option<IcmpError> {
    let mut r = Reader::new(outer.payload);
    let (kind, code) = (r.u8().ok()?, r.u8().ok()?);
    r.bytes(6).ok()?;
    // Errors: destination unreachable, source quench, redirect, time exceeded, parameter problem; in ICMPv6, all below
    // 128.
    let is_error = if v6 {
        kind < 128
    } else {
        [3, 4, 5, 11, 12].contains(&kind)
    };
    let quoted = header(r.rest(), 0).filter(|h| is_error && h.protocol == UDP && !h.is_fragment)?;
    let mut ports = Reader::new(quoted.payload);
    let (src_port, dst_port) = (ports.u16().ok()?, ports.u16().ok()?);
    Some(IcmpError {
        kind,
        code,
        port_unreachable: (kind, code) == if v6 { (1, 4) } else { (3, 3) },
        quoted_src: SocketAddr::new(quoted.src, src_port),
        quoted_dst: SocketAddr::new(quoted.dst, dst_port),
        quoted_scid: ports.bytes(4).ok().and_then(|_| long_header_scid(ports)),
        source: outer.src,
    })
}

/// Source connection ID in a packet with a long header (RFC 8999 5.1).
fn long_header_scid(mut packet: Reader<'_>) -> Option<ConnectionId> {
    let is_long = packet.u8().ok()? & 0x80 != 0;
    packet.bytes(4).ok().filter(|_| is_long)?;
    packet.vec8().ok()?;
    ConnectionId::new(packet.vec8().ok()?).ok()
}

#[cfg(test)]
mod tests;
