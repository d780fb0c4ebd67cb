use super::*;

fn v4(protocol: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![
        0x45, 0, 0, 0, 0, 0, 0, 0, 61, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
    ];
    p[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    p[6..8].copy_from_slice(&flags.to_be_bytes());
    p.extend(payload);
    p
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 61];
    p.extend([[0; 15].as_slice(), &[1], &[0; 15], &[2]].concat());
    p.extend(payload);
    p
}

fn udp_bytes(payload: &[u8]) -> Vec<u8> {
    let mut u = vec![0x1f, 0x90, 0x01, 0xbb, 0, 8 + payload.len() as u8, 0, 0];
    u.extend(payload);
    u
}

#[test]
fn udp_over_both_families() {
    let mut padded = v4(UDP, 0x4000, &udp_bytes(b"quic"));
    padded.extend([0; 10]);
    let Content::Udp(d) = content(&padded, 0) else {
        panic!("no UDP")
    };
    assert_eq!((d.payload, d.length, d.ttl), (&b"quic"[..], 4, 61));
    assert_eq!(
        (d.src.to_string(), d.dst.to_string()),
        ("192.0.2.1:8080".into(), "192.0.2.2:443".into())
    );

    let extensions = [&[
        60, 0, 0, 0, 0, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, UDP, 0, 0, 0, 0, 0, 0, 9,
    ][..]];
    let packet = v6(0, &[extensions.concat(), udp_bytes(b"six")].concat());
    let Content::Udp(d) = content(&packet, 0) else {
        panic!("no UDP")
    };
    assert_eq!(
        (d.payload, d.dst.to_string()),
        (&b"six"[..], "[::2]:443".to_string())
    );
}

#[test]
fn every_extension_header_is_passed_over() {
    // The first two bytes. The length of an authentication header is in units of four bytes.
    for (kind, header) in [
        (0, [UDP, 0].as_slice()),
        (43, &[UDP, 0]),
        (51, &[UDP, 4]),
        (60, &[UDP, 0]),
        (135, &[UDP, 0]),
        (139, &[UDP, 0]),
        (140, &[UDP, 0]),
    ] {
        let mut header = header.to_vec();
        header.resize(if kind == 51 { 24 } else { 8 }, 0);
        let packet = v6(kind, &[header, udp_bytes(b"six")].concat());
        let Content::Udp(d) = content(&packet, 0) else {
            panic!("no UDP behind {kind}")
        };
        assert_eq!((d.payload, d.length), (&b"six"[..], 3), "{kind}");
    }
}

#[test]
fn cut_and_broken_packets() {
    let whole = v4(UDP, 0, &udp_bytes(b"0123456789"));
    let Content::Udp(d) = content(&whole[..33], 0) else {
        panic!("no UDP")
    };
    assert_eq!((d.payload.len(), d.length), (5, 10));
    assert_eq!(content(&whole[..25], 0), Content::Broken);
    assert_eq!(content(&[], 0), Content::Broken);
    assert_eq!(content(&[0x75; 40], 0), Content::Broken);
    // The UDP length exceeds the IP packet.
    let mut long = udp_bytes(b"x");
    long[5] = 100;
    assert_eq!(content(&v4(UDP, 0, &long), 0), Content::Broken);
}

#[test]
fn a_total_length_of_zero_is_that_of_the_frame() {
    let mut whole = v4(UDP, 0, &udp_bytes(b"0123456789"));
    whole[2..4].fill(0);
    let Content::Udp(d) = content(&whole[..33], 70_000) else {
        panic!("no UDP")
    };
    let expected = IpLength {
        bytes: 70_033,
        is_guessed: true,
    };
    assert_eq!(d.ip_length, expected);
}

#[test]
fn fragments_are_told() {
    for packet in [
        v4(UDP, 0x2000, &udp_bytes(b"x")),
        v4(UDP, 0x0001, b"x"),
        v6(44, &[UDP, 0, 0, 1, 0, 0, 0, 9, 1]),
    ] {
        assert_eq!(content(&packet, 0), Content::Fragment(&packet));
        let in_tunnel = v4(if packet[0] == 0x60 { IPV6 } else { IPV4 }, 0, &packet);
        assert_eq!(content(&in_tunnel, 0), Content::Fragment(&packet));
    }
}

#[test]
fn tunnels_hold_what_the_packet_inside_holds() {
    let inside = v4(UDP, 0, &udp_bytes(b"0123456789"));
    let plain = content(&inside, 0);
    let gre = [&[0, 0, 0x08, 0][..], &inside].concat();
    let once = v6(IPV4, &inside);
    for outside in [
        once.clone(),
        v4(IPV4, 0, &inside),
        v4(IPV6, 0, &once),
        v4(GRE, 0, &gre),
        v4(MPLS, 0, &[&[0, 2, 1, 9][..], &inside].concat()),
        v4(
            ETHERIP,
            0,
            &[&[0x30, 0][..], &[0; 12], &[0x08, 0], &inside].concat(),
        ),
    ] {
        assert_eq!(content(&outside, 0), plain);
        // A cut of the outer packet shortens the inner one.
        let Content::Udp(cut) = content(&outside[..outside.len() - 3], 3) else {
            panic!("no UDP")
        };
        assert_eq!((cut.payload.len(), cut.length), (7, 10));
    }
    let mut deep = inside;
    for _ in 0..MOST_LAYERS {
        deep = v4(IPV4, 0, &deep);
    }
    assert!(matches!(content(&deep, 0), Content::Udp(_)));
    let too_deep = v4(IPV4, 0, &deep);
    assert_eq!(content(&too_deep, 0), Content::Unread(Unread::Nested));
    assert_eq!(
        content(&v4(50, 0, b"esp"), 0),
        Content::Unread(Unread::Ip(50))
    );
}

#[test]
fn port_unreachable_quotes_the_tuple() {
    let quoted = v4(UDP, 0, &udp_bytes(&[0; 20]));
    let message = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &quoted[..28]].concat();
    let Content::Icmp(e) = content(&v4(ICMP, 0, &message), 0) else {
        panic!("no ICMP")
    };
    assert!(e.port_unreachable);
    assert_eq!((e.quoted_src.port(), e.quoted_dst.port()), (8080, 443));
    assert_eq!(
        (e.source.to_string(), e.quoted_scid),
        ("192.0.2.1".into(), None)
    );
    let mut initial = vec![0xc3, 0, 0, 0, 1, 8, 1, 1, 1, 1, 1, 1, 1, 1, 2, 7, 9];
    for (bytes, scid) in [(17, Some(ConnectionId::new(&[7, 9]).unwrap())), (16, None)] {
        initial.truncate(bytes);
        let message = [
            &[3, 3, 0, 0, 0, 0, 0, 0][..],
            &v4(UDP, 0, &udp_bytes(&initial)),
        ];
        let Content::Icmp(e) = content(&v4(ICMP, 0, &message.concat()), 0) else {
            panic!("no ICMP")
        };
        assert_eq!(e.quoted_scid, scid, "{bytes} bytes quoted");
    }
    let message = [&[1, 4, 0, 0, 0, 0, 0, 0][..], &v6(UDP, &udp_bytes(b"x"))].concat();
    let Content::Icmp(e) = content(&v6(ICMPV6, &message), 0) else {
        panic!("no ICMPv6")
    };
    assert!(e.port_unreachable && e.quoted_dst.is_ipv6());
    // An echo request is not an error.
    assert_eq!(
        content(
            &v4(ICMP, 0, &[&[8, 0, 0, 0, 0, 0, 0, 0][..], &quoted].concat()),
            0
        ),
        Content::Other
    );
}
