//! Link layers: from a captured frame to the IP packet in it.

/// Link types (<https://www.tcpdump.org/linktypes.html>) that are understood here.
mod linktype {
    pub const NULL: i32 = 0;
    pub const ETHERNET: i32 = 1;
    pub const PPP: i32 = 9;
    pub const RAW_BSD: [i32; 2] = [12, 14];
    pub const PPP_HDLC: i32 = 50;
    pub const RAW: i32 = 101;
    pub const LOOP: i32 = 108;
    pub const LINUX_SLL: i32 = 113;
    pub const IPV4: i32 = 228;
    pub const IPV6: i32 = 229;
    pub const LINUX_SLL2: i32 = 276;
}

/// Whether frames of that link type can be read.
pub fn is_known(link: i32) -> bool {
    use linktype::*;
    RAW_BSD.contains(&link)
        || matches!(
            link,
            NULL | ETHERNET | PPP | PPP_HDLC | RAW | LOOP | LINUX_SLL | IPV4 | IPV6 | LINUX_SLL2
        )
}

/// The message about a link type that is not known.
pub fn expected(found: i32) -> String {
    format!(
        "expected a known link type, found {found} (known are Ethernet, PPP, Linux cooked, raw IP and \
         loopback)"
    )
}

/// The IP packet in a frame, or `None` if it holds something else or is cut before it. What it gives starts
/// with version nibble 4 or 6 if the frame is sound; link padding may follow it.
pub fn ip_packet(link: i32, frame: &[u8]) -> Option<&[u8]> {
    use linktype::*;
    match link {
        ETHERNET => by_ethertype(frame.get(12..14)?, frame.get(14..)?),
        LINUX_SLL => by_ethertype(frame.get(14..16)?, frame.get(16..)?),
        LINUX_SLL2 => by_ethertype(frame.get(0..2)?, frame.get(20..)?),
        PPP | PPP_HDLC => ppp(frame),
        // The family is in the capturing host's byte order (NULL) or big-endian (LOOP); the IP version
        // determines the same.
        NULL | LOOP => frame.get(4..),
        _ => Some(frame),
    }
}

/// `kind` is an Ethernet type, `rest` what follows it. VLAN tags are skipped (IEEE 802.1Q, 802.1ad), and
/// PPPoE's header in a session (RFC 2516 4).
fn by_ethertype<'a>(mut kind: &'a [u8], mut rest: &'a [u8]) -> Option<&'a [u8]> {
    // Each turn takes four bytes, so the loop ends.
    loop {
        match kind {
            [0x08, 0x00] | [0x86, 0xdd] => return Some(rest),
            [0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00] => {
                kind = rest.get(2..4)?;
                rest = rest.get(4..)?;
            }
            [0x88, 0x64] => return ppp(rest.get(6..)?),
            _ => return None,
        }
    }
}

/// PPP with or without address and control bytes, protocol in one or two bytes (RFC 1661 2, 6.5).
fn ppp(frame: &[u8]) -> Option<&[u8]> {
    let frame = frame.strip_prefix(&[0xff, 0x03]).unwrap_or(frame);
    match frame {
        [0x00, 0x21 | 0x57, ip @ ..] | [0x21 | 0x57, ip @ ..] => Some(ip),
        _ => None,
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
        let vlan = [&mac[..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x08, 0]].concat();
        let pppoe = [&mac[..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 6, 0x00, 0x21]].concat();
        for (link, frame) in [
            (1, with(&[&mac[..], &[0x08, 0]].concat())),
            (1, with(&vlan)),
            (1, with(&pppoe)),
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
            assert_eq!(ip_packet(link, &frame), Some(&ip[..]), "link type {link}");
        }
        assert!(!is_known(127));
    }

    #[test]
    fn other_protocols_and_short_frames_are_none() {
        assert_eq!(
            ip_packet(1, &[&[0; 12][..], &[0x08, 0x06, 0, 0]].concat()),
            None
        );
        assert_eq!(ip_packet(1, &[0; 13]), None);
        assert_eq!(ip_packet(1, &[&[0; 12][..], &[0x81, 0, 0]].concat()), None);
        assert_eq!(ip_packet(9, &[0xff]), None);
        assert_eq!(ip_packet(276, &[0x08, 0]), None);
    }
}
