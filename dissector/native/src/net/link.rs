//! Link layers: from a captured frame to the IP packet in it.

use super::unread::Unread;

/// The supported link types (<https://www.tcpdump.org/linktypes.html>).
mod linktype {
    pub const NULL: i32 = 0;
    pub const ETHERNET: i32 = 1;
    pub const PPP: i32 = 9;
    pub const RAW_BSD: [i32; 2] = [12, 14];
    pub const PPP_HDLC: i32 = 50;
    pub const RAW: i32 = 101;
    pub const C_HDLC: i32 = 104;
    pub const LOOP: i32 = 108;
    pub const LINUX_SLL: i32 = 113;
    pub const IPV4: i32 = 228;
    pub const IPV6: i32 = 229;
    pub const LINUX_SLL2: i32 = 276;
}

mod ethertype {
    pub const IPV4: u16 = 0x0800;
    pub const IPV6: u16 = 0x86dd;
    pub const MPLS: u16 = 0x8847;
}

/// Whether frames of this link type are supported.
pub fn is_known(link: i32) -> bool {
    use linktype::*;
    RAW_BSD.contains(&link)
        || matches!(
            link,
            NULL | ETHERNET
                | PPP
                | PPP_HDLC
                | RAW
                | C_HDLC
                | LOOP
                | LINUX_SLL
                | IPV4
                | IPV6
                | LINUX_SLL2
        )
}

/// The message about an unsupported link type.
pub fn expected(found: i32) -> String {
    format!(
        "expected a known link type, found {found} (known are Ethernet, PPP, Cisco HDLC, Linux cooked, raw \
         IP and loopback)"
    )
}

/// The IP packet in a frame, or the unsupported protocol; `Err(None)` if the frame is too short. The packet starts with
/// version nibble 4 or 6 if the frame is valid. Link padding may follow it.
pub fn ip_packet(link: i32, frame: &[u8]) -> Result<&[u8], Option<Unread>> {
    use linktype::*;
    match link {
        ETHERNET => ethernet(frame),
        LINUX_SLL => by_ethertype(at(frame, 14)?, from(frame, 16)?),
        LINUX_SLL2 => by_ethertype(at(frame, 0)?, from(frame, 20)?),
        C_HDLC => cisco_hdlc(frame),
        // Some routers declare PPP but send Cisco HDLC. Its address byte is not valid in PPP.
        PPP_HDLC if matches!(frame, [0x0f | 0x8f, 0x00, ..]) => cisco_hdlc(frame),
        PPP | PPP_HDLC => ppp(frame),
        // The family is in the capturing host's byte order (NULL) or big-endian (LOOP). The IP version is sufficient.
        NULL | LOOP => from(frame, 4),
        _ => Ok(frame),
    }
}

/// The big-endian 16-bit number at `offset`.
fn at(bytes: &[u8], offset: usize) -> Result<u16, Option<Unread>> {
    let found = bytes.get(offset..).and_then(<[u8]>::first_chunk);
    found.map(|pair| u16::from_be_bytes(*pair)).ok_or(None)
}

fn from(bytes: &[u8], offset: usize) -> Result<&[u8], Option<Unread>> {
    bytes.get(offset..).ok_or(None)
}

/// An Ethernet frame.
pub(super) fn ethernet(frame: &[u8]) -> Result<&[u8], Option<Unread>> {
    by_ethertype(at(frame, 12)?, from(frame, 14)?)
}

/// Parses `rest` after an EtherType of `kind`. Skips tags: VLANs (IEEE 802.1Q, 802.1ad), port extenders (802.1BR),
/// Cisco's VN-Tag and HSR (IEC 62439-3). Also skips provider backbones (802.1ah), PPPoE's header in a session (RFC 2516
/// 4), MPLS labels, and SNAP in 802.3 frames.
///
/// A loop instead of recursion: a frame may nest these thousands of times, and must not exhaust the stack.
pub(super) fn by_ethertype(mut kind: u16, mut rest: &[u8]) -> Result<&[u8], Option<Unread>> {
    const LONGEST_802_3: u16 = 1500;
    // Each iteration takes at least two bytes, so the loop is finite.
    loop {
        let tag = match kind {
            ethertype::IPV4 | ethertype::IPV6 => return Ok(rest),
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => 2,
            0x8926 | 0x892f => 4,
            0x893f => 6,
            // I-TAG: four bytes, then both addresses of the customer's frame.
            0x88e7 => 4 + 12,
            ethertype::MPLS | 0x8848 => {
                rest = after_labels(rest)?;
                match rest.first().ok_or(None)? >> 4 {
                    4 | 6 => return Ok(rest),
                    // A control word of zero, then both addresses of an Ethernet frame (RFC 4448 4.6).
                    0 => 4 + 12,
                    _ => return Err(Some(Unread::EtherType(ethertype::MPLS))),
                }
            }
            0x8864 => {
                (kind, rest) = ppp_content(from(rest, 6)?)?;
                continue;
            }
            ..=LONGEST_802_3 if rest.starts_with(&[0xaa, 0xaa, 0x03]) => 6,
            _ => return Err(Some(Unread::EtherType(kind))),
        };
        kind = at(rest, tag)?;
        rest = from(rest, tag + 2)?;
    }
}

/// MPLS labels, then IP or Ethernet.
pub(super) fn mpls(labels: &[u8]) -> Result<&[u8], Option<Unread>> {
    by_ethertype(ethertype::MPLS, labels)
}

/// The bytes after the label at the bottom of the stack (RFC 3032).
fn after_labels(mut rest: &[u8]) -> Result<&[u8], Option<Unread>> {
    loop {
        let [_, _, third, _, after @ ..] = rest else {
            return Err(None);
        };
        rest = after;
        if third & 1 != 0 {
            return Ok(rest);
        }
    }
}

/// Cisco HDLC: address, control byte, EtherType.
fn cisco_hdlc(frame: &[u8]) -> Result<&[u8], Option<Unread>> {
    by_ethertype(at(frame, 2)?, from(frame, 4)?)
}

/// A PPP frame.
pub(super) fn ppp(frame: &[u8]) -> Result<&[u8], Option<Unread>> {
    let (kind, rest) = ppp_content(frame)?;
    by_ethertype(kind, rest)
}

/// EtherType and content in a PPP frame. Address and control bytes are optional, and the protocol field has one or two
/// bytes (RFC 1661 2, 6.5).
fn ppp_content(frame: &[u8]) -> Result<(u16, &[u8]), Option<Unread>> {
    let frame = frame.strip_prefix(&[0xff, 0x03]).unwrap_or(frame);
    let (protocol, rest) = match frame {
        [first, rest @ ..] if first & 1 != 0 => (u16::from(*first), rest),
        [first, second, rest @ ..] => (u16::from_be_bytes([*first, *second]), rest),
        _ => return Err(None),
    };
    match protocol {
        0x0021 => Ok((ethertype::IPV4, rest)),
        0x0057 => Ok((ethertype::IPV6, rest)),
        0x0281 | 0x0283 => Ok((ethertype::MPLS, rest)),
        _ => Err(Some(Unread::Ppp(protocol))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_type_leads_to_the_same_ip_packet() {
        let ip = [0x45, 1, 2, 3];
        let with = |head: &[u8]| [head, &ip[..]].concat();
        let mac = [0; 12];
        let tagged = |tags: &[u8]| [&mac[..], tags].concat();
        let vlan = [&mac[..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x08, 0]].concat();
        let pppoe = [&mac[..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 6, 0x00, 0x21]].concat();
        for (link, frame) in [
            (1, with(&[&mac[..], &[0x08, 0]].concat())),
            (1, with(&vlan)),
            (1, with(&pppoe)),
            (1, with(&tagged(&[0x89, 0x3f, 0, 0, 0, 1, 0, 0, 0x08, 0]))),
            (1, with(&tagged(&[0x89, 0x26, 0, 0, 0, 1, 0x08, 0]))),
            (
                1,
                with(&tagged(&[
                    0x88, 0xe7, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x08, 0,
                ])),
            ),
            (1, with(&tagged(&[0x88, 0x47, 0, 1, 0, 9, 0, 2, 1, 9]))),
            (
                1,
                with(
                    &[
                        &tagged(&[0x88, 0x47, 0, 2, 1, 9, 0, 0, 0, 0])[..],
                        &mac,
                        &[0x08, 0],
                    ]
                    .concat(),
                ),
            ),
            (1, with(&tagged(&[0, 12, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0]))),
            (104, with(&[0x0f, 0, 0x08, 0])),
            (50, with(&[0x8f, 0, 0x08, 0])),
            (9, with(&[0xff, 0x03, 0x02, 0x81, 0, 2, 1, 9])),
            (9, with(&[0xff, 0x03, 0x00, 0x21])),
            (9, with(&[0x00, 0x21])),
            (9, with(&[0x21])),
            (113, with(&[&[0; 14][..], &[0x08, 0]].concat())),
            (276, with(&[&[0x08, 0][..], &[0; 18]].concat())),
            (0, with(&[2, 0, 0, 0])),
            (108, with(&[0, 0, 0, 2])),
            (101, ip.to_vec()),
            (12, ip.to_vec()),
            (228, ip.to_vec()),
        ] {
            assert!(is_known(link));
            assert_eq!(ip_packet(link, &frame), Ok(&ip[..]), "link type {link}");
        }
        assert!(!is_known(127));
    }

    #[test]
    fn frames_may_nest_as_deep_as_they_are_long() {
        // An Ethernet frame in a label and a control word, and a PPP session with the same content.
        let mpls = [&[0; 12][..], &[0x88, 0x47, 0, 0, 1, 9, 0, 0, 0, 0]].concat();
        let pppoe = [
            &[0; 12][..],
            &[0x88, 0x64],
            &[0; 6],
            &[0x02, 0x81, 0, 0, 1, 9],
            &[0; 4],
        ]
        .concat();
        for level in [mpls, pppoe] {
            let mut frame = level.repeat(100_000);
            frame.extend([&[0; 12][..], &[0x08, 0, 0x45]].concat());
            assert_eq!(ip_packet(1, &frame), Ok(&[0x45][..]));
        }
    }

    #[test]
    fn other_protocols_are_named_and_short_frames_are_not() {
        let other = |kind| Err(Some(Unread::EtherType(kind)));
        let of = |tail: &[u8]| [&[0; 12][..], tail].concat();
        for (link, frame, expected, may_hide_rows) in [
            (1, of(&[0x08, 0x06, 0, 0]), other(0x0806), false),
            (1, of(&[0, 3, 0x42, 0x42, 3]), other(3), false),
            (1, of(&[0x88, 0xe5, 0, 0]), other(0x88e5), true),
            (1, of(&[0x88, 0x47, 0, 2, 1, 9, 0x50]), other(0x8847), true),
            (
                9,
                vec![0xc0, 0x21, 1],
                Err(Some(Unread::Ppp(0xc021))),
                false,
            ),
            (9, vec![0x00, 0xfd, 1], Err(Some(Unread::Ppp(0x00fd))), true),
        ] {
            let found = ip_packet(link, &frame);
            assert_eq!(found, expected);
            let named = found.err().flatten().map(Unread::may_hide_rows);
            assert_eq!(named, Some(may_hide_rows), "{found:?}");
        }
        for (link, frame) in [
            (1, vec![0; 13]),
            (1, of(&[0x81, 0, 0])),
            (1, of(&[0x88, 0x47, 0, 0, 0])),
            (9, vec![0xff, 0x03]),
            (276, vec![0x08, 0]),
        ] {
            assert_eq!(ip_packet(link, &frame), Err(None));
        }
    }
}
