//! Tunnels: finds the IP packet inside an IP or UDP payload.

use super::link::{by_ethertype, ethernet, ppp};
use super::unread::Unread;

/// The inner packet, or the unsupported protocol; `Err(None)` if it is too short.
type Inner<'a> = Result<&'a [u8], Option<Unread>>;

const GRE: Unread = Unread::Ip(47);

/// GRE (RFC 2784, 2890), with ERSPAN (draft-foschiano-erspan) and PPTP's version (RFC 2637 4.1).
pub(super) fn gre(bytes: &[u8]) -> Inner<'_> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGMENT: u16 = 0x0080;
    let [a, b, c, d, ..] = *bytes else {
        return Err(None);
    };
    let (flags, kind) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let version = flags & 7;
    if flags & ROUTING != 0 {
        return Err(Some(GRE));
    }
    let mut options = CHECKSUM | KEY | SEQUENCE;
    if version == 1 {
        options |= ACKNOWLEDGMENT;
    }
    let head = 4 + 4 * (flags & options).count_ones() as usize;
    let rest = bytes.get(head..).ok_or(None)?;
    let behind = |length: usize| rest.get(length..).ok_or(None);
    match (version, kind) {
        (0, 0x6558) => ethernet(rest),
        // ERSPAN: type I has neither sequence numbers nor a header.
        (0, 0x88be) if flags & SEQUENCE == 0 => ethernet(rest),
        (0, 0x88be) => ethernet(behind(8)?),
        (0, 0x22eb) => {
            let has_more = rest.get(11).ok_or(None)? & 1 != 0;
            ethernet(behind(if has_more { 20 } else { 12 })?)
        }
        (0, kind) => by_ethertype(kind, rest),
        (1, 0x880b) => ppp(rest),
        _ => Err(Some(GRE)),
    }
}

/// EtherIP (RFC 3378).
pub(super) fn etherip(bytes: &[u8]) -> Inner<'_> {
    ethernet(bytes.get(2..).ok_or(None)?)
}

/// Returns the content in a UDP datagram to `port`, if it is a tunnel's port and the payload starts with this tunnel's
/// header. `length` is the payload's length as sent. Returns `None` for all other datagrams. No QUIC packet starts like
/// one of these headers, because they all have 0 in the position of the fixed bit.
pub(super) fn in_udp(port: u16, payload: &[u8], length: usize) -> Option<Inner<'_>> {
    match (port, payload) {
        // VXLAN (RFC 7348 5), and the port that Linux used before.
        (4789 | 8472, [0x08, 0, 0, 0, _, _, _, 0, frame @ ..]) => Some(ethernet(frame)),
        // VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe).
        (4790, [0x0c, 0, 0, kind @ 1..=3, _, _, _, 0, rest @ ..]) => Some(match kind {
            3 => ethernet(rest),
            _ => Ok(rest),
        }),
        (6081, [first @ 0..=0x3f, _, high, low, _, _, _, 0, rest @ ..]) => {
            geneve(*first, u16::from_be_bytes([*high, *low]), rest)
        }
        (2152, [flags @ 0x30..=0x37, 0xff, high, low, _, _, _, _, rest @ ..]) => {
            let stated = usize::from(u16::from_be_bytes([*high, *low]));
            (stated + 8 == length).then(|| gtp(*flags, rest))
        }
        _ => None,
    }
}

/// Geneve (RFC 8926 3.4): `first` holds the length of the options, in units of four bytes.
fn geneve(first: u8, kind: u16, rest: &[u8]) -> Option<Inner<'_>> {
    let inner = rest.get(4 * usize::from(first)..)?;
    match kind {
        0x6558 => Some(ethernet(inner)),
        0x0800 | 0x86dd => Some(Ok(inner)),
        _ => Some(Err(Some(Unread::EtherType(kind)))),
    }
}

/// A G-PDU of GTP-U (3GPP TS 29.281 5.1, 5.2): optional fields if any of the three flags is set, then extension
/// headers. The last byte of each extension header is the type of the next.
fn gtp(flags: u8, mut rest: &[u8]) -> Inner<'_> {
    const EXTENSION: u8 = 0x04;
    if flags & 0x07 != 0 {
        let [_, _, _, next, after @ ..] = rest else {
            return Err(None);
        };
        let mut next = if flags & EXTENSION != 0 { *next } else { 0 };
        rest = after;
        while next != 0 {
            let size = 4 * usize::from(*rest.first().ok_or(None)?);
            let header = rest.get(..size).ok_or(None)?;
            // A length of zero has no last byte and is an error, so the loop is finite.
            next = *header.last().ok_or(None)?;
            rest = &rest[size..];
        }
    }
    match rest.first().ok_or(None)? >> 4 {
        4 | 6 => Ok(rest),
        // A session of Ethernet (TS 23.501 5.6.10.2) or of another type.
        _ => ethernet(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: [u8; 4] = [0x45, 1, 2, 3];

    /// An Ethernet frame with [`IP`].
    fn frame() -> Vec<u8> {
        [&[0; 12][..], &[0x08, 0], &IP].concat()
    }

    #[test]
    fn gre_leads_to_the_packet_inside() {
        let with = |head: &[u8], inner: &[u8]| [head, inner].concat();
        for bytes in [
            with(&[0, 0, 0x08, 0], &IP),
            with(
                &[0xb0, 0, 0x86, 0xdd, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2],
                &IP,
            ),
            with(&[0x20, 0, 0x65, 0x58, 0, 0, 0, 1], &frame()),
            with(&[0, 0, 0x88, 0x47, 0, 1, 0, 9, 0, 2, 1, 9], &IP),
            with(&[0, 0, 0x88, 0xbe], &frame()),
            with(
                &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 1, 0, 0, 0, 0, 0, 0],
                &frame(),
            ),
            with(
                &[
                    0x30, 0x81, 0x88, 0x0b, 0, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x21,
                ],
                &IP,
            ),
        ] {
            assert_eq!(gre(&bytes), Ok(&IP[..]), "{bytes:x?}");
        }
        assert_eq!(gre(&[0x40, 0, 0x08, 0, 0x45]), Err(Some(GRE)));
        assert_eq!(gre(&[0x80, 0, 0x08, 0, 0]), Err(None));
        let wccp = Err(Some(Unread::EtherType(0x883e)));
        assert_eq!(gre(&[0, 0, 0x88, 0x3e, 0, 0, 0, 0]), wccp);
    }

    #[test]
    fn tunnels_in_udp_are_told_by_port_and_header() {
        let with = |head: &[u8], inner: &[u8]| [head, inner].concat();
        for (port, payload) in [
            (4789, with(&[8, 0, 0, 0, 0, 0, 1, 0], &frame())),
            (4790, with(&[0x0c, 0, 0, 1, 0, 0, 1, 0], &IP)),
            (
                6081,
                with(&[0x01, 0, 0x65, 0x58, 0, 0, 1, 0, 9, 9, 9, 9], &frame()),
            ),
            (6081, with(&[0, 0, 0x08, 0, 0, 0, 1, 0], &IP)),
            (2152, with(&[0x30, 0xff, 0, 4, 0, 0, 0, 1], &IP)),
            (2152, with(&[0x32, 0xff, 0, 8, 0, 0, 0, 1, 0, 7, 0, 0], &IP)),
            (
                2152,
                with(
                    &[0x34, 0xff, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0],
                    &IP,
                ),
            ),
        ] {
            let found = in_udp(port, &payload, payload.len());
            assert_eq!(found, Some(Ok(&IP[..])), "{port} {payload:x?}");
            // Another port, or a QUIC packet's fixed bit, is no tunnel.
            assert_eq!(in_udp(443, &payload, payload.len()), None);
            let quic = with(&[payload[0] | 0x40], &payload[1..]);
            assert_eq!(in_udp(port, &quic, quic.len()), None);
        }
        assert_eq!(gtp(0x34, &[0, 0, 0, 0x85, 0, 0, 0, 0]), Err(None));
    }
}
