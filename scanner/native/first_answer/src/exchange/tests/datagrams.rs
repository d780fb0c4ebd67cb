//! Whole datagrams: packets of other versions, types and connections, and the time when an attempt is finished.

use super::*;

/// A packet with a long header of `version`, under the keys of our version.
fn packet_of(kind: PacketType, version: Version, dcid: [u8; 8], token: &[u8]) -> Vec<u8> {
    let keys = Keys::new(&InitialSecret::new(VERSION, &DCID.into()).unwrap().server());
    let header = LongHeader {
        kind,
        pn_len: 4,
        token,
        ..LongHeader::initial(version, dcid.into(), server(), 0)
    };
    let mut out = [0; 1500];
    let n = build_packet(&mut out, &header, &keys, None, both).unwrap();
    out[..n].to_vec()
}

/// A packet with a short header to our connection ID.
fn one_rtt() -> Vec<u8> {
    [&[0x40][..], &CLIENT, &[9; 30]].concat()
}

fn remark(exchange: &Exchange) -> &str {
    let rare = exchange.rare.as_deref();
    rare.and_then(|rare| rare.detail.as_deref())
        .unwrap_or_default()
}

#[test]
fn packets_of_another_version_are_not_read() {
    for (kind, name) in [
        (PacketType::Initial, "initial"),
        (PacketType::Handshake, "handshake"),
    ] {
        let (outcome, exchange) = outcome_of(&[packet_of(kind, Version::V2, CLIENT, &[])]);
        assert_eq!(
            (outcome, exchange.discarded),
            (Outcome::Malformed, 1),
            "{name}"
        );
        assert_eq!(
            remark(&exchange),
            format!("a {name} packet where none is expected")
        );
        assert!(
            !exchange.is_answered() && !exchange.handshake_seen,
            "{name}"
        );
    }
    let mut out = [0; 200];
    let scid = ConnectionId::from([7; 8]);
    let (odcid, client) = (DCID.into(), CLIENT.into());
    let n = write_retry(&mut out, Version::V2, &odcid, &client, &scid, b"token", 0).unwrap();
    let (outcome, exchange) = outcome_of(&[out[..n].to_vec()]);
    assert_eq!((outcome, exchange.retried), (Outcome::Malformed, false));
    assert_eq!(remark(&exchange), "a retry packet where none is expected");
}

#[test]
fn an_initial_of_a_server_has_no_token() {
    let datagram = packet_of(PacketType::Initial, VERSION, CLIENT, b"token");
    let (outcome, exchange) = outcome_of(&[datagram]);
    assert_eq!((outcome, exchange.discarded), (Outcome::Timeout, 1));
    let datagram = packet_of(PacketType::Initial, VERSION, CLIENT, &[]);
    assert_eq!(outcome_of(&[datagram]).0, Outcome::Coalesced);
}

#[test]
fn packets_behind_the_first_must_be_for_the_same_connection() {
    let other = packet_of(PacketType::Initial, VERSION, [0xee; 8], &[]);
    let datagram = [initial(0, &ack), other, initial(1, &hello)].concat();
    let (outcome, exchange) = outcome_of(&[datagram]);
    assert_eq!((outcome, exchange.discarded), (Outcome::Coalesced, 1));
}

#[test]
fn one_rtt_packets_are_expected_behind_a_server_hello_alone() {
    for (name, datagrams, outcome, discarded) in [
        (
            "behind it",
            vec![[initial(0, &both), one_rtt()].concat()],
            Outcome::Coalesced,
            0,
        ),
        (
            "later",
            vec![initial(0, &both), one_rtt()],
            Outcome::Coalesced,
            0,
        ),
        ("before it", vec![one_rtt()], Outcome::Malformed, 1),
        (
            "behind an ACK",
            vec![[initial(0, &ack), one_rtt()].concat()],
            Outcome::AckOnly,
            1,
        ),
    ] {
        let (found, exchange) = outcome_of(&datagrams);
        assert_eq!((found, exchange.discarded), (outcome, discarded), "{name}");
    }
}

#[test]
fn zeros_may_fill_a_datagram_behind_its_packets_and_nothing_else_may() {
    for (name, datagram, discarded) in [
        ("zeros", [initial(0, &both), vec![0; 30]].concat(), 0),
        ("one zero", [initial(0, &both), vec![0]].concat(), 0),
        (
            "other bytes",
            [initial(0, &both), vec![0, 0, 1, 0]].concat(),
            1,
        ),
        ("zeros alone", vec![0; 30], 1),
        ("no bytes", vec![], 0),
    ] {
        let size = datagram.len() as u32;
        let (outcome, exchange) = outcome_of(&[datagram]);
        assert_eq!(exchange.discarded, discarded, "{name}");
        assert_eq!((exchange.datagrams, exchange.bytes), (1, size), "{name}");
        let expected = match size {
            0 => Outcome::Timeout,
            30 => Outcome::Malformed,
            _ => Outcome::Coalesced,
        };
        assert_eq!(outcome, expected, "{name}");
    }
    let (_, exchange) = outcome_of(&[initial(0, &ack), vec![0; 3]]);
    assert!(
        remark(&exchange).starts_with("datagram 2: "),
        "{}",
        remark(&exchange)
    );
}

#[test]
fn an_attempt_ends_with_ack_server_hello_and_handshake_packet() {
    let end = |datagrams: &[Vec<u8>]| feed(&mut exchange(), datagrams) == Step::End;
    for (name, datagrams, ended) in [
        ("ACK", vec![initial(0, &ack)], false),
        ("ServerHello", vec![initial(0, &hello)], false),
        ("both", vec![initial(0, &both)], false),
        ("Handshake", vec![handshake()], false),
        (
            "ServerHello, Handshake",
            vec![initial(0, &hello), handshake()],
            false,
        ),
        ("ACK, Handshake", vec![initial(0, &ack), handshake()], false),
        (
            "all",
            vec![initial(0, &ack), initial(1, &hello), handshake()],
            true,
        ),
        (
            "Handshake first",
            vec![handshake(), initial(0, &both)],
            true,
        ),
        (
            "ACK last",
            vec![initial(0, &hello), handshake(), initial(1, &ack)],
            true,
        ),
    ] {
        assert_eq!(end(&datagrams), ended, "{name}");
    }
}

#[test]
fn a_step_of_one_packet_is_kept_by_the_next_in_its_datagram() {
    let close: Fill<'_> = &|w| write_connection_close(w, 1, 0, b"");
    let mut exchange = exchange();
    let datagram = [initial(0, close), initial(1, &|w| write_ping(w))].concat();
    assert_eq!(feed(&mut exchange, &[datagram]), Step::End);
}

#[test]
fn an_attempt_is_over_after_its_window_or_its_settle_time() {
    let (window, settle) = (1000, 100);
    let late_hello = [vec![], vec![], initial(0, &hello)];
    // The ServerHello arrives at 3 ms.
    for (name, answered, at, sent, over) in [
        ("in the window", false, 1500, 500, false),
        ("after it", false, 1501, 500, true),
        ("long after it", false, 9999, 500, true),
        ("settled at its end", true, 3_000_100, 3_000_000, false),
        ("after that", true, 3_000_101, 3_000_000, true),
        ("both over", true, 3_009_000, 3_000_000, true),
    ] {
        let mut exchange = exchange();
        if answered {
            feed(&mut exchange, &late_hello);
        }
        assert_eq!(exchange.is_over(at, sent, window, settle), over, "{name}");
    }
}

#[test]
fn strays_are_discarded_and_make_silence_malformed_unless_they_negotiate() {
    for (name, datagram, outcome, detail) in [
        (
            "Version Negotiation",
            negotiation(CLIENT, [3; 8], &[Version::V2]),
            Outcome::Timeout,
            "",
        ),
        (
            "an Initial",
            initial(0, &both),
            Outcome::Malformed,
            "a initial packet for another connection ID",
        ),
        (
            "no packet",
            vec![0; 5],
            Outcome::Malformed,
            "no QUIC packet: ",
        ),
        ("no bytes", vec![], Outcome::Malformed, "no QUIC packet: "),
    ] {
        let mut exchange = exchange();
        exchange.receive_stray(&datagram);
        assert_eq!(
            (exchange.outcome(), exchange.discarded),
            (outcome, 1),
            "{name}"
        );
        assert!(
            remark(&exchange).starts_with(detail),
            "{name}: {}",
            remark(&exchange)
        );
        assert_eq!(remark(&exchange).is_empty(), detail.is_empty(), "{name}");
        assert_eq!((exchange.datagrams, exchange.bytes), (0, 0), "{name}");
    }
}

#[test]
fn the_packet_around_the_first_ack_is_kept() {
    let frames: Fill<'_> = &|w| {
        write_ping(w)?;
        write_crypto(w, 500, &[1; 5])?;
        write_ack(w, 7, 3, &[(7, 5), (2, 0)])
    };
    for (name, frames, names, eliciting, first_range) in [
        ("with others", frames, "ping,crypto,ack", true, 2),
        ("alone", &ack as Fill<'_>, "ack", false, 0),
    ] {
        let datagram = [initial(4, frames), vec![0; 9]].concat();
        let size = datagram.len() as u16;
        let (_, exchange) = outcome_of(&[datagram, initial(5, &both)]);
        let seen = exchange.ack.unwrap();
        assert_eq!(
            (seen.frames.names(), seen.eliciting),
            (names.into(), eliciting),
            "{name}"
        );
        assert_eq!((seen.datagram, seen.datagram_bytes), (1, size), "{name}");
        assert_eq!(
            (seen.packet_number, seen.first_range),
            (4, first_range),
            "{name}"
        );
    }
}

#[test]
fn a_packet_without_frames_is_malformed() {
    let (outcome, exchange) = outcome_of(&[initial(3, &|_| Ok(()))]);
    assert_eq!((outcome, exchange.discarded), (Outcome::Malformed, 1));
    assert!(remark(&exchange).starts_with("Initial packet 3: "));
    assert!(remark(&exchange).contains("packet without frames"));
    assert!(exchange.is_answered());
}

#[test]
fn a_close_of_the_application_counts_as_a_close() {
    let close: Fill<'_> = &|w| {
        w.u8(0x1d)?;
        w.varint(7)?;
        w.varint_bytes(b"bye")
    };
    let (outcome, exchange) = outcome_of(&[initial(0, close)]);
    assert_eq!((outcome, exchange.discarded), (Outcome::Closed, 0));
    assert_eq!(exchange.rare.unwrap().close, Some((7, "bye".into())));
}

#[test]
fn the_first_of_two_closes_counts() {
    let closes = [1, 2].map(|code| initial(code, &|w| write_connection_close(w, code, 0, b"")));
    let (_, exchange) = outcome_of(&closes);
    assert_eq!(exchange.rare.unwrap().close, Some((1, String::new())));
}

#[test]
fn handshake_packets_count_from_the_servers_connection_alone() {
    let mut other = handshake();
    // The source connection ID starts after 1 + 4 + 1 + 8 + 1 bytes.
    other[15] ^= 1;
    let (_, exchange) = outcome_of(&[initial(0, &both), other.clone()]);
    assert_eq!((exchange.handshake_at, exchange.discarded), (None, 1));
    let last = [initial(0, &both), other, handshake(), handshake()];
    let mut exchange = super::exchange();
    assert_eq!(feed(&mut exchange, &last), Step::End);
    assert_eq!(
        (exchange.handshake_at, exchange.discarded),
        (Some(3_000_000), 1)
    );
}

#[test]
fn no_retry_is_followed_after_an_answer_nor_negotiation_after_a_retry() {
    let retry = retry(DCID, &[7; 8], b"token");
    let (outcome, exchange) = outcome_of(&[initial(0, &ack), retry.clone()]);
    assert_eq!(
        (outcome, exchange.retried, exchange.discarded),
        (Outcome::AckOnly, false, 1)
    );
    let (outcome, exchange) = outcome_of(&[retry, negotiation(CLIENT, [7; 8], &[Version::V2])]);
    assert_eq!((outcome, exchange.discarded), (Outcome::Retry, 1));
    assert_eq!(exchange.rare.unwrap().retry_at, Some(1_000_000));
}

#[test]
fn an_answer_after_a_retry_counts_and_only_if_it_authenticates() {
    let scid = ConnectionId::from([7; 8]);
    let broken: Fill<'_> = &|w| w.u8(0x1e);
    for (name, answer, outcome) in [
        ("none", vec![], Outcome::Retry),
        ("under the keys before", initial(0, &both), Outcome::Retry),
        (
            "a ping",
            initial_with(scid, scid, 0, &|w| write_ping(w)),
            Outcome::Malformed,
        ),
        (
            "a broken one",
            initial_with(scid, scid, 0, broken),
            Outcome::Malformed,
        ),
    ] {
        let (found, _) = outcome_of(&[retry(DCID, &[7; 8], b"token"), answer]);
        assert_eq!(found, outcome, "{name}");
    }
}

#[test]
fn the_first_icmp_message_is_kept_until_one_proves_the_port_unreachable() {
    let mut exchange = exchange();
    for (message, unreachable, kept) in [
        ((3, 1), false, (3, 1)),
        ((11, 0), false, (3, 1)),
        ((3, 3), true, (3, 3)),
        ((3, 1), false, (3, 3)),
    ] {
        exchange.icmp(message.0, message.1, unreachable);
        assert_eq!(exchange.rare.as_ref().unwrap().icmp, Some(kept));
    }
}

#[test]
fn an_exchange_without_retry_has_no_token() {
    assert_eq!(exchange().token(), [0_u8; 0]);
}
