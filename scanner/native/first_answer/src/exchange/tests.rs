//! Every row of the table of outcomes, and orders of packets that are easily confused. All packets authenticate.

use firstflight_wire::Error;
use firstflight_wire::tls::{number, write_hello_retry_request, write_server_hello};
use firstflight_wire::{
    LongHeader, Writer, build_packet, write_ack, write_connection_close, write_crypto, write_ping,
    write_retry, write_version_negotiation,
};

use super::*;

mod crypto;
mod datagrams;
mod retransmissions;

const DCID: [u8; 8] = [0xd; 8];
const CLIENT: [u8; 8] = [0xc; 8];
const SERVER: [u8; 5] = [5; 5];

type Fill<'a> = &'a dyn Fn(&mut Writer<'_>) -> Result<(), Error>;

fn server() -> ConnectionId {
    ConnectionId::new(&SERVER).unwrap()
}

fn exchange() -> Exchange {
    Exchange::new(DCID, CLIENT)
}

/// An Initial of the server under the keys of `dcid`.
fn initial_with(dcid: ConnectionId, scid: ConnectionId, number: u64, frames: Fill<'_>) -> Vec<u8> {
    let keys = Keys::new(&InitialSecret::new(VERSION, &dcid).unwrap().server());
    let header = LongHeader {
        pn_len: 4,
        ..LongHeader::initial(VERSION, CLIENT.into(), scid, number)
    };
    let mut out = [0; 1500];
    let n = build_packet(&mut out, &header, &keys, None, frames).unwrap();
    out[..n].to_vec()
}

fn initial(number: u64, frames: Fill<'_>) -> Vec<u8> {
    initial_with(DCID.into(), server(), number, frames)
}

fn handshake() -> Vec<u8> {
    let keys = Keys::new(
        &InitialSecret::new(VERSION, &[9; 8].into())
            .unwrap()
            .server(),
    );
    let header = LongHeader {
        kind: PacketType::Handshake,
        ..LongHeader::initial(VERSION, CLIENT.into(), server(), 0)
    };
    let mut out = [0; 200];
    let n = build_packet(&mut out, &header, &keys, Some(100), |w| w.u8(1)).unwrap();
    out[..n].to_vec()
}

fn hello_bytes() -> Vec<u8> {
    let mut out = [0; 200];
    let mut w = Writer::new(&mut out);
    let suite = number::TLS_AES_128_GCM_SHA256;
    write_server_hello(&mut w, &[7; 32], &[], suite, number::X25519, &[8; 32]).unwrap();
    w.written().to_vec()
}

fn ack(w: &mut Writer<'_>) -> Result<(), Error> {
    write_ack(w, 0, 25, &[(0, 0)])
}

fn hello(w: &mut Writer<'_>) -> Result<(), Error> {
    write_crypto(w, 0, &hello_bytes())
}

fn both(w: &mut Writer<'_>) -> Result<(), Error> {
    ack(w)?;
    hello(w)
}

/// Passes datagrams 1 ms apart, the first at 1 ms. Returns the last step.
fn feed(exchange: &mut Exchange, datagrams: &[Vec<u8>]) -> Step {
    let mut step = Step::Wait;
    for (i, datagram) in datagrams.iter().enumerate() {
        step = exchange.receive((i as i64 + 1) * 1_000_000, &mut datagram.clone());
    }
    step
}

fn outcome_of(datagrams: &[Vec<u8>]) -> (Outcome, Exchange) {
    let mut exchange = exchange();
    feed(&mut exchange, datagrams);
    (exchange.outcome(), exchange)
}

#[test]
fn an_ack_in_an_earlier_datagram_is_an_instant_ack() {
    let mut exchange = exchange();
    let rest = [initial(1, &hello), handshake()].concat();
    assert_eq!(feed(&mut exchange, &[initial(0, &ack), rest]), Step::End);
    assert_eq!(exchange.outcome(), Outcome::Iack);
    let seen = exchange.ack.unwrap();
    assert_eq!(
        (seen.at, seen.delay, seen.packet_number, seen.frames.names()),
        (1_000_000, 25, 0, "ack".into())
    );
    assert!(!seen.eliciting);
    assert_eq!(
        (exchange.hello.unwrap().at, exchange.handshake_at),
        (2_000_000, Some(2_000_000))
    );
    assert_eq!((exchange.datagrams, exchange.discarded), (2, 0));
}

#[test]
fn the_same_datagram_is_coalesced_in_one_packet_or_two_and_any_frame_order() {
    let crypto_first: Fill<'_> = &|w| {
        hello(w)?;
        write_ping(w)?;
        ack(w)
    };
    for datagram in [
        initial(0, &both),
        initial(0, crypto_first),
        [initial(0, &ack), initial(1, &hello)].concat(),
        [initial(1, &hello), initial(0, &ack)].concat(),
        [initial(0, &ack), initial(1, &hello), vec![0; 30]].concat(),
    ] {
        let (outcome, exchange) = outcome_of(&[datagram]);
        assert_eq!((outcome, exchange.discarded), (Outcome::Coalesced, 0));
        assert_eq!(exchange.ack.unwrap().at, exchange.hello.unwrap().at);
    }
}

#[test]
fn a_hello_before_any_ack_is_sh_first_with_and_without_a_later_ack() {
    let (outcome, exchange) = outcome_of(&[initial(0, &hello), handshake()]);
    assert_eq!((outcome, exchange.ack), (Outcome::ShFirst, None));
    let mut exchange = self::exchange();
    assert_eq!(
        feed(
            &mut exchange,
            &[initial(0, &hello), handshake(), initial(1, &ack)]
        ),
        Step::End
    );
    assert_eq!(exchange.outcome(), Outcome::ShFirst);
    assert_eq!(
        (exchange.hello.unwrap().at, exchange.ack.unwrap().at),
        (1_000_000, 3_000_000)
    );
}

#[test]
fn what_comes_first_in_the_hello_counts_and_copies_change_nothing() {
    let bytes = hello_bytes();
    let head: Fill<'_> = &|w| write_crypto(w, 0, &bytes[..10]);
    let tail: Fill<'_> = &|w| {
        ack(w)?;
        write_crypto(w, 10, &bytes[10..])
    };
    // The tail with the ACK arrives before the first byte.
    let (outcome, exchange) = outcome_of(&[initial(1, tail), initial(0, head)]);
    assert_eq!(
        (outcome, exchange.hello.unwrap().packet_number),
        (Outcome::Iack, 0)
    );
    assert!(!exchange.hello.unwrap().gap);
    // The first byte arrives before the ACK.
    let (outcome, _) = outcome_of(&[initial(0, head), initial(1, tail)]);
    assert_eq!(outcome, Outcome::ShFirst);
    // The same packets again, and the same frames in new packets.
    let again = [
        initial(0, &ack),
        initial(1, &hello),
        initial(0, &ack),
        initial(1, &hello),
        initial(2, &both),
    ];
    let (outcome, exchange) = outcome_of(&again);
    assert_eq!((outcome, exchange.discarded), (Outcome::Iack, 2));
    assert_eq!(
        (exchange.ack.unwrap().at, exchange.hello.unwrap().at),
        (1_000_000, 2_000_000)
    );
}

#[test]
fn closes_are_kept_with_an_ack_before_or_beside_them() {
    let close: Fill<'_> = &|w| write_connection_close(w, 0x128, 6, b"no such name");
    let close_and_ack: Fill<'_> = &|w| {
        write_connection_close(w, 0x128, 6, b"no such name")?;
        ack(w)
    };
    for (datagrams, acknowledged) in [
        (vec![initial(0, close)], false),
        (vec![initial(0, &ack), initial(1, close)], true),
        (vec![initial(0, close_and_ack)], true),
    ] {
        let mut exchange = exchange();
        assert_eq!(feed(&mut exchange, &datagrams), Step::End);
        assert_eq!(
            (exchange.outcome(), exchange.ack.is_some()),
            (Outcome::Closed, acknowledged)
        );
        assert_eq!(
            exchange.rare.unwrap().close,
            Some((0x128, "no such name".into()))
        );
    }
    let (outcome, _) = outcome_of(&[initial(0, &both), initial(1, close)]);
    assert_eq!(outcome, Outcome::Coalesced);
}

#[test]
fn a_hello_retry_request_is_no_hello() {
    let mut bytes = [0; 100];
    let mut w = Writer::new(&mut bytes);
    write_hello_retry_request(
        &mut w,
        &[],
        number::TLS_AES_128_GCM_SHA256,
        number::SECP384R1,
    )
    .unwrap();
    let request = w.written().to_vec();
    let whole: Fill<'_> = &|w| {
        ack(w)?;
        write_crypto(w, 0, &request)
    };
    let (outcome, exchange) = outcome_of(&[initial(0, whole)]);
    assert_eq!(
        (outcome, exchange.hello_retry, exchange.hello),
        (Outcome::AckOnly, true, None)
    );
    let head: Fill<'_> = &|w| write_crypto(w, 0, &request[..20]);
    let (outcome, exchange) = outcome_of(&[
        initial(0, &ack),
        initial(1, head),
        initial(2, &|w| write_crypto(w, 20, &request[20..])),
    ]);
    assert_eq!(
        (outcome, exchange.hello_retry, exchange.hello),
        (Outcome::AckOnly, true, None)
    );
}

#[test]
fn an_ack_and_nothing_more() {
    let (outcome, exchange) = outcome_of(&[initial(0, &ack)]);
    assert_eq!(outcome, Outcome::AckOnly);
    assert!(exchange.is_answered());
    // An ACK for a packet that was never sent covers nothing.
    let (outcome, exchange) = outcome_of(&[initial(0, &|w| write_ack(w, 3, 0, &[(3, 2)]))]);
    assert_eq!((outcome, exchange.ack), (Outcome::Malformed, None));
    assert!(!exchange.is_over(3_000_000_000, 0, 3_000_000_000, 100_000_000));
    assert!(exchange.is_over(3_000_000_001, 0, 3_000_000_000, 100_000_000));
}

fn retry(odcid: [u8; 8], scid: &[u8], token: &[u8]) -> Vec<u8> {
    let mut out = [0; 200];
    let scid = ConnectionId::new(scid).unwrap();
    let n = write_retry(
        &mut out,
        VERSION,
        &odcid.into(),
        &CLIENT.into(),
        &scid,
        token,
        0,
    )
    .unwrap();
    out[..n].to_vec()
}

#[test]
fn retry_is_followed_once() {
    let mut exchange = exchange();
    assert_eq!(
        feed(&mut exchange, &[retry([1; 8], &[7; 6], b"token")]),
        Step::Wait,
        "wrong integrity tag"
    );
    assert_eq!(
        feed(&mut exchange, &[retry(DCID, &[7; 6], b"")]),
        Step::Wait,
        "no token"
    );
    assert_eq!(
        feed(&mut exchange, &[retry(DCID, &DCID, b"token")]),
        Step::Wait,
        "connection ID not changed"
    );
    assert_eq!(
        feed(&mut exchange, &[retry(DCID, &[7; 6], b"token")]),
        Step::SendToken
    );
    assert_eq!(
        (
            exchange.token(),
            exchange.dcid.as_slice(),
            exchange.hello_number
        ),
        (&b"token"[..], &[7; 6][..], 1)
    );
    assert_eq!(
        (exchange.outcome(), exchange.discarded),
        (Outcome::Retry, 3)
    );
    assert!(!exchange.is_answered());
    assert_eq!(
        feed(&mut exchange, &[retry(DCID, &[8; 6], b"other")]),
        Step::Wait,
        "a second one"
    );
    assert_eq!(
        (exchange.token(), exchange.outcome()),
        (&b"token"[..], Outcome::Retry)
    );

    // Answers under the old keys no longer count. An ACK must cover the Initial with the token.
    let scid = ConnectionId::new(&[7; 6]).unwrap();
    feed(&mut exchange, &[initial(0, &both)]);
    assert_eq!(exchange.outcome(), Outcome::Retry);
    let mut old = self::exchange();
    feed(
        &mut old,
        &[
            retry(DCID, &[7; 6], b"token"),
            initial_with(scid, scid, 0, &ack),
        ],
    );
    assert_eq!(old.ack, None);
    let answer = initial_with(scid, scid, 0, &|w| {
        write_ack(w, 1, 0, &[(1, 0)])?;
        hello(w)
    });
    feed(&mut exchange, &[answer]);
    assert_eq!(
        (exchange.outcome(), exchange.retried),
        (Outcome::Coalesced, true)
    );
    assert_eq!(
        (
            exchange.ack.unwrap().largest,
            exchange.ack.unwrap().first_range
        ),
        (1, 1)
    );
}

fn negotiation(dcid: [u8; 8], scid: [u8; 8], versions: &[Version]) -> Vec<u8> {
    let mut out = [0; 100];
    let n = write_version_negotiation(&mut out, &dcid.into(), &scid.into(), versions, 0).unwrap();
    out[..n].to_vec()
}

#[test]
fn version_negotiation_is_checked() {
    let good = negotiation(CLIENT, DCID, &[Version::V2, Version(0x1a2a_3a4a)]);
    let mut exchange = exchange();
    assert_eq!(feed(&mut exchange, std::slice::from_ref(&good)), Step::End);
    assert_eq!(exchange.outcome(), Outcome::VersionNegotiation);
    assert!(!exchange.is_answered());
    assert_eq!(
        exchange.rare.unwrap().versions.unwrap(),
        ("0x6b3343cf,0x1a2a3a4a".to_owned(), 1, 1_000_000)
    );
    // Only a list with version 1 answers a reserved version.
    let mut reserved = Exchange::reserved(DCID, CLIENT);
    assert_eq!(reserved.version, Version(0x0a0a_0a0a));
    feed(&mut reserved, &[initial(0, &both)]);
    assert_eq!(
        (reserved.outcome(), reserved.ack),
        (Outcome::Malformed, None)
    );
    let list = negotiation(CLIENT, DCID, &[Version::V1]);
    assert_eq!(feed(&mut reserved, &[list]), Step::End);
    assert_eq!(reserved.outcome(), Outcome::VersionNegotiation);
    let other = Exchange::reserved([0x1f, 0x2e, 0x3d, 0x4c, 0, 0, 0, 0], CLIENT);
    assert_eq!(other.version, Version(0x1a2a_3a4a));
    let bad = [
        negotiation(CLIENT, [3; 8], &[Version::V2]),
        negotiation(CLIENT, DCID, &[Version::V2, Version::V1]),
        negotiation(CLIENT, DCID, &[]),
    ];
    let (outcome, exchange) = outcome_of(&bad);
    assert_eq!((outcome, exchange.discarded), (Outcome::Timeout, 3));
    let (outcome, exchange) = outcome_of(&[initial(0, &ack), good.clone()]);
    assert_eq!((outcome, exchange.discarded), (Outcome::AckOnly, 1));
    let (outcome, _) = outcome_of(&[retry(DCID, &[7; 6], b"token"), good]);
    assert_eq!(outcome, Outcome::Retry);
}

#[test]
fn icmp_port_unreachable_is_final_other_icmp_is_kept() {
    let mut exchange = exchange();
    assert_eq!(exchange.icmp(3, 1, false), Step::Wait);
    assert_eq!(exchange.outcome(), Outcome::Timeout);
    assert_eq!(exchange.icmp(3, 3, true), Step::End);
    assert_eq!(
        (exchange.outcome(), exchange.rare.as_ref().unwrap().icmp),
        (Outcome::Refused, Some((3, 3)))
    );
    let mut answered = self::exchange();
    feed(&mut answered, &[initial(0, &ack)]);
    answered.icmp(3, 3, true);
    assert_eq!(answered.outcome(), Outcome::AckOnly);
}

#[test]
fn malformed_says_where() {
    let broken: Fill<'_> = &|w| w.bytes(&[6, 0, 0x40, 200, 1]);
    let forbidden: Fill<'_> = &|w| w.u8(0x1e);
    let other_message: Fill<'_> = &|w| write_crypto(w, 0, &[11; 40]);
    let mut tampered = initial(0, &both);
    *tampered.last_mut().unwrap() ^= 1;
    for (datagram, detail, answered) in [
        (initial(3, broken), "Initial packet 3", true),
        (initial(0, forbidden), "no Initial may hold", true),
        (initial(0, other_message), "CRYPTO", true),
        (tampered, "authenticate", false),
        (handshake(), "Handshake packet before", false),
        (vec![0x40; 60], "1rtt", false),
        (initial(0, &both)[..40].to_vec(), "too early", false),
    ] {
        let mut exchange = exchange();
        let own = datagram[0] != 0x40;
        if own {
            feed(&mut exchange, &[datagram]);
        } else {
            exchange.receive_stray(&datagram)
        }
        let found = exchange
            .rare
            .as_ref()
            .and_then(|rare| rare.detail.clone())
            .unwrap_or_default();
        assert!(found.contains(detail), "{detail}: {found}");
        assert_eq!(
            (exchange.outcome(), exchange.is_answered()),
            (Outcome::Malformed, answered),
            "{detail}"
        );
    }
    // A message that is too short for a ServerHello does not count as one, whole or in pieces.
    let mut short = hello_bytes();
    short[1..4].copy_from_slice(&[0, 0, 1]);
    let (whole, piece) = (short.clone(), short[..6].to_vec());
    for bytes in [whole, piece] {
        let (outcome, exchange) = outcome_of(&[initial(0, &|w| write_crypto(w, 0, &bytes))]);
        assert_eq!((outcome, exchange.hello), (Outcome::Malformed, None));
    }
    let (outcome, _) = outcome_of(&[initial(0, &|w| {
        ack(w)?;
        write_crypto(w, 0, &short)
    })]);
    assert_eq!(outcome, Outcome::AckOnly);
    // A valid packet afterwards decides.
    let (outcome, exchange) = outcome_of(&[initial(0, broken), initial(1, &both)]);
    assert_eq!((outcome, exchange.discarded), (Outcome::Coalesced, 1));
    // A packet without an ACK or a ServerHello is also an answer, but no outcome describes it.
    assert_eq!(
        outcome_of(&[initial(0, &|w| write_ping(w))]).0,
        Outcome::Malformed
    );
    assert_eq!(outcome_of(&[]).0, Outcome::Timeout);
}

#[test]
fn forged_packets_change_nothing_but_the_counter() {
    let mut tampered = initial(0, &both);
    tampered[30] ^= 4;
    let elsewhere = ConnectionId::from([0x33; 8]);
    let forged = [
        tampered,
        retry([1; 8], &[7; 6], b"token"),
        negotiation(CLIENT, [3; 8], &[Version::V2]),
        initial_with(elsewhere, server(), 0, &hello),
    ];
    let mut exchange = exchange();
    feed(&mut exchange, &forged);
    exchange.receive_stray(&initial(0, &both));
    let rest = [initial(1, &hello), handshake()].concat();
    feed(&mut exchange, &[initial(0, &ack), rest]);
    assert_eq!((exchange.outcome(), exchange.discarded), (Outcome::Iack, 5));
    assert_eq!(exchange.ack.unwrap().at, 1_000_000);
}

#[test]
fn the_servers_connection_id_stays() {
    let other = ConnectionId::from([0x44; 8]);
    let (outcome, exchange) = outcome_of(&[
        initial(0, &ack),
        initial_with(DCID.into(), other, 1, &hello),
    ]);
    assert_eq!(
        (outcome, exchange.discarded, exchange.server_cid),
        (Outcome::AckOnly, 1, Some(server()))
    );
}

#[test]
fn packet_numbers_start_anywhere_and_gaps_are_told() {
    let far = 2_147_483_647;
    let (outcome, exchange) = outcome_of(&[initial(far, &ack), initial(far + 1, &hello)]);
    assert_eq!(
        (outcome, exchange.hello.unwrap().gap),
        (Outcome::Iack, false)
    );
    assert_eq!(exchange.ack.unwrap().packet_number, far);
    assert!(outcome_of(&[initial(1, &both)]).1.hello.unwrap().gap);
    assert!(
        outcome_of(&[initial(0, &ack), initial(2, &hello)])
            .1
            .hello
            .unwrap()
            .gap
    );
}

#[test]
fn no_bytes_make_it_panic() {
    let seeds = [
        initial(0, &both),
        [initial(0, &ack), initial(1, &hello), handshake()].concat(),
        retry(DCID, &[7; 6], b"token"),
        negotiation(CLIENT, DCID, &[Version::V2]),
        initial(u64::from(u32::MAX), &|w| write_crypto(w, 30, &[3; 60])),
    ];
    // A small generator is enough, if every byte is changed and every length is cut.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for _ in 0..20_000 {
        let mut exchange = exchange();
        for _ in 0..3 {
            let mut datagram = seeds[random() % seeds.len()].clone();
            if random() % 4 != 0 {
                let place = random() % datagram.len();
                datagram[place] ^= random() as u8;
            }
            if random() % 4 == 0 {
                datagram.truncate(random() % (datagram.len() + 1));
            }
            exchange.receive_stray(&datagram);
            exchange.receive(1, &mut datagram);
        }
        exchange.outcome();
    }
}
