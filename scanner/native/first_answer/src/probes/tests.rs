//! Passes sent datagrams, stamps, received datagrams, ICMP messages and times to probes until they become records.

use std::net::SocketAddr;
use std::sync::Arc;

use firstflight_core::clock::{Mono, SECOND, Stamp};
use firstflight_core::receive::{Control, Icmp};
use firstflight_core::targets::{FedTarget, Groups, TargetRef};
use firstflight_wire::tls::{number, write_server_hello};
use firstflight_wire::{
    ConnectionId, Error, InitialSecret, Keys, LongHeader, Writer, build_packet, write_ack,
    write_crypto,
};

use super::*;
use crate::exchange::VERSION;
use crate::outcome::Outcome;

mod completion;
mod listen;
mod receive;
mod sent;

const MS: Mono = 1_000_000;
const WINDOW: Mono = 3 * SECOND;
const SETTLE: Mono = 100 * MS;
const COOLDOWN: Mono = 500 * MS;
/// Wall clock when the monotonic clock was 0.
const START: Stamp = 1_795_154_400_000_000_000;
const DCID: [u8; 8] = [0xd; 8];
const LINE: u32 = 7;

fn stamp(now: Mono) -> Stamp {
    START + now as Stamp
}

fn server() -> SocketAddr {
    "127.0.0.1:443".parse().unwrap()
}

fn probes() -> Probes {
    let settings = Settings {
        window: WINDOW,
        settle: SETTLE,
        cooldown: COOLDOWN,
        attempts: 2,
        sizes: InitialSizes::default(),
        listen: None,
        reserved: false,
        ecn: None,
    };
    let locals = ["127.0.0.9:61000", "0.0.0.0:61001"].map(|local| local.parse().unwrap());
    let cids = CidKey::new(&[1; 16]);
    Probes::new(settings, cids, locals.to_vec(), [9; 3], Counts::default())
}

fn cid(attempt: u8) -> [u8; 8] {
    CidKey::new(&[1; 16]).of(LINE, attempt)
}

fn connect(probes: &mut Probes, target: TargetRef, group: u32) -> Handle {
    probes.connect(target, (LINE, group), server(), 0, DCID)
}

/// A planned probe of the feed, with a single connection.
fn planned() -> TargetRef {
    TargetRef::Fed(Arc::new(FedTarget {
        number: 1 << 31,
        ip_text: "127.0.0.1".into(),
        ip: server().ip(),
        domain: "".into(),
        port: 443,
        group: 0,
        owned: false,
    }))
}

/// Returns the only record.
fn record(probes: &mut Probes) -> FinishedProbe {
    let mut finished: Vec<_> = probes.finished().collect();
    assert_eq!(finished.len(), 1);
    finished.remove(0)
}

/// Adds a probe of the list with an Initial sent at `now`, and the transmit stamp.
fn sent(probes: &mut Probes, now: Mono) -> Handle {
    let handle = connect(probes, TargetRef::Listed(0), 0);
    let key = probes.sent(handle, Kind::New, 0, None, now, stamp(now));
    probes.stamped(key.unwrap(), stamp(now));
    handle
}

/// An Initial of the server with an ACK and a ServerHello, for attempt number `attempt`.
fn answer(attempt: u8) -> Vec<u8> {
    initial(attempt, 0, |packet| {
        let mut hello = [0; 200];
        let mut w = Writer::new(&mut hello);
        let suite = number::TLS_AES_128_GCM_SHA256;
        write_server_hello(&mut w, &[7; 32], &[], suite, number::X25519, &[8; 32])?;
        write_ack(packet, 0, 25, &[(0, 0)])?;
        write_crypto(packet, 0, w.written())
    })
}

/// An Initial of the server with only an ACK.
fn ack(attempt: u8) -> Vec<u8> {
    initial(attempt, 1, |packet| write_ack(packet, 0, 25, &[(0, 0)]))
}

/// Initial number `number` of the server, for attempt number `attempt`.
fn initial(
    attempt: u8,
    number: u64,
    frames: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
) -> Vec<u8> {
    let dcid = ConnectionId::from(DCID);
    let keys = Keys::new(&InitialSecret::new(VERSION, &dcid).unwrap().server());
    let scid = ConnectionId::new(&[5; 5]).unwrap();
    let header = LongHeader {
        pn_len: 4,
        ..LongHeader::initial(VERSION, cid(attempt).into(), scid, number)
    };
    let mut out = [0; 1500];
    let n = build_packet(&mut out, &header, &keys, None, frames);
    out[..n.unwrap()].to_vec()
}

/// Passes a datagram from `peer` to port 0 at `now`.
fn feed(probes: &mut Probes, peer: SocketAddr, mut bytes: Vec<u8>, now: Mono) {
    let control = Control {
        stamp: Some(stamp(now)),
        ttl: Some(60),
        ..Control::default()
    };
    let wall = || stamp(now);
    probes.datagram(0, peer, &control, &mut bytes, now, wall, &Groups::default());
}

fn expire(probes: &mut Probes, now: Mono) {
    probes.expire(now, &Groups::default());
}

/// Returns outcome, attempts and number of late datagrams of each record.
fn records(probes: &mut Probes) -> Vec<(Outcome, u8, u16)> {
    let brief = |probe: FinishedProbe| {
        let sent = probe.sent.as_ref();
        let (attempts, late) = sent.map_or((0, 0), |sent| (sent.attempts, sent.after_close));
        (probe.outcome, attempts, late)
    };
    probes.finished().map(brief).collect()
}

#[test]
fn an_answered_probe_settles_is_closed_and_counts_late_datagrams() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    feed(&mut probes, server(), answer(1), 20 * MS);
    expire(&mut probes, 20 * MS + SETTLE - 1);
    assert!(probes.queue().is_empty(), "it waits for more");
    let closed_at = 20 * MS + SETTLE;
    expire(&mut probes, closed_at);
    assert_eq!(probes.queue().pop(0), Some((handle, Kind::Close)));
    assert_eq!(probes.queue().pop(0), None);
    assert!(probes.sending(handle, Kind::Close).is_some());
    assert!(probes.sending(handle, Kind::Token).is_none());
    let key = probes.sent(handle, Kind::Close, 0, None, closed_at, stamp(closed_at));
    assert_eq!(key, None, "closes ask for no stamp");
    feed(&mut probes, server(), answer(1), closed_at + 1);
    expire(&mut probes, closed_at + COOLDOWN - 1);
    assert_eq!((probes.len(), records(&mut probes)), (1, vec![]));
    expire(&mut probes, closed_at + COOLDOWN);
    let finished: Vec<_> = probes.finished().collect();
    let sent = finished[0].sent.as_ref().unwrap();
    assert_eq!(
        (finished[0].outcome, sent.after_close),
        (Outcome::Coalesced, 1)
    );
    assert_eq!(
        (sent.sent_at, sent.ttl, sent.src_ip, sent.src_port),
        (
            Some(START),
            Some(60),
            Some("127.0.0.9".parse().unwrap()),
            61000
        )
    );
    let counts = probes.counts();
    assert_eq!((counts.closes, counts.tally.sent, probes.len()), (1, 1, 0));
}

#[test]
fn an_answer_after_its_time_does_not_count() {
    for (at, outcome, late) in [
        (WINDOW, Outcome::Coalesced, 0),
        (WINDOW + 1, Outcome::Timeout, 1),
    ] {
        let mut probes = probes();
        sent(&mut probes, 0);
        feed(&mut probes, server(), answer(1), at);
        probes.stop();
        if outcome == Outcome::Timeout {
            expire(&mut probes, at);
            assert_eq!(
                probes.counts().tally.not_done,
                1,
                "a further connection was due"
            );
            continue;
        }
        expire(&mut probes, at + SETTLE);
        probes.finish_all();
        assert_eq!(records(&mut probes), [(outcome, 1, late)]);
    }
}

#[test]
fn silence_leads_to_another_connection_or_to_the_end() {
    let mut paused = Groups::default();
    paused.pause(64500);
    for (name, target, group, stopping, queued, not_done) in [
        ("listed", TargetRef::Listed(0), 0, false, true, 0),
        ("planned", planned(), 0, false, false, 0),
        ("paused", TargetRef::Listed(0), 64500, false, false, 0),
        ("stopping", TargetRef::Listed(0), 0, true, false, 1),
    ] {
        let mut probes = probes();
        let handle = connect(&mut probes, target, group);
        let key = probes.sent(handle, Kind::New, 0, None, 0, START);
        probes.stamped(key.unwrap(), START);
        if stopping {
            probes.stop();
        }
        probes.expire(WINDOW - 1, &paused);
        assert_eq!(probes.queue().next_attempts(), 0, "{name}");
        probes.expire(WINDOW, &paused);
        assert_eq!(probes.queue().next_attempts() == 1, queued, "{name}");
        assert_eq!(probes.counts().tally.not_done, not_done, "{name}");
        probes.expire(WINDOW + COOLDOWN, &paused);
        let ended = !queued && not_done == 0;
        let expected = [(Outcome::Timeout, 1, 0)];
        let expected = if ended { &expected[..] } else { &[] };
        assert_eq!(records(&mut probes), expected, "{name}");
    }
}

#[test]
fn the_second_connection_counts_and_answers_to_the_first_are_late() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    expire(&mut probes, WINDOW);
    assert_eq!(probes.queue().pop_next_attempt(), Some(handle));
    assert!(probes.sending(handle, Kind::NextAttempt).is_some());
    let next = probes.next_attempt(handle, DCID);
    let now = WINDOW + MS;
    let key = probes.sent(handle, Kind::NextAttempt, 1, next, now, stamp(now));
    assert_eq!(probes.counts().retransmissions, 1);
    probes.stamped(key.unwrap(), stamp(now));
    feed(&mut probes, server(), answer(1), now + MS);
    expire(&mut probes, now + WINDOW - 1);
    assert!(
        probes.queue().is_empty(),
        "the first window is over, not this"
    );
    feed(&mut probes, server(), answer(2), now + 2 * MS);
    expire(&mut probes, now + 2 * MS + SETTLE);
    assert_eq!(
        probes.queue().pop(1),
        Some((handle, Kind::Close)),
        "from the port of the second connection"
    );
    probes.finish_all();
    let finished: Vec<_> = probes.finished().collect();
    let sent = finished[0].sent.as_ref().unwrap();
    assert_eq!(
        (finished[0].outcome, sent.attempts, sent.after_close),
        (Outcome::Coalesced, 2, 1)
    );
    assert_eq!((sent.sent_at, sent.src_port), (Some(stamp(now)), 61001));
}

#[test]
fn datagrams_are_attributed_to_one_probe_or_to_none() {
    let elsewhere: SocketAddr = "127.0.0.2:443".parse().unwrap();
    let mut other_cid = answer(1);
    other_cid[6..14].fill(0xee);
    for (name, peer, bytes, unmatched, outcome) in [
        ("the server", server(), answer(1), 0, Outcome::Coalesced),
        ("another address", elsewhere, answer(1), 1, Outcome::Timeout),
        ("another ID", server(), other_cid, 0, Outcome::Malformed),
        ("no packet", server(), vec![0; 5], 0, Outcome::Malformed),
        ("strangers", elsewhere, vec![0; 5], 1, Outcome::Timeout),
        ("no bytes", elsewhere, vec![], 1, Outcome::Timeout),
    ] {
        let mut probes = probes();
        let handle = sent(&mut probes, 0);
        feed(&mut probes, peer, bytes, MS);
        assert_eq!(probes.counts().unmatched, unmatched, "{name}");
        let flight = probes.sending(handle, Kind::New).unwrap();
        assert_eq!(flight.exchange.outcome(), outcome, "{name}");
    }
    let mut probes = probes();
    sent(&mut probes, 0);
    let mut bytes = answer(1);
    let (control, wall) = (Control::default(), || START);
    probes.datagram(
        0,
        server(),
        &control,
        &mut bytes,
        MS,
        wall,
        &Groups::default(),
    );
    assert_eq!(
        probes.counts().missing_rx_stamps,
        1,
        "without a stamp it is dropped"
    );
}

#[test]
fn what_comes_for_a_probe_that_is_over_is_not_for_the_next_one() {
    let mut probes = probes();
    sent(&mut probes, 0);
    feed(&mut probes, server(), answer(1), MS);
    expire(&mut probes, MS + SETTLE);
    assert!(probes.queue().pop(0).is_some());
    probes.finish_all();
    assert_eq!(record(&mut probes).outcome, Outcome::Coalesced);

    let next = probes.connect(TargetRef::Listed(0), (LINE + 1, 0), server(), 0, DCID);
    let now = SECOND;
    let key = probes.sent(next, Kind::New, 0, None, now, stamp(now));
    probes.stamped(key.unwrap(), stamp(now));
    feed(&mut probes, server(), answer(1), now + MS);
    assert_eq!(probes.counts().unmatched, 1);
    let flight = probes.sending(next, Kind::New).unwrap();
    assert_eq!(
        (
            flight.exchange.outcome(),
            flight.exchange.discarded,
            flight.after_close
        ),
        (Outcome::Timeout, 0, 0)
    );
}

#[test]
fn icmp_ends_a_probe_only_if_it_is_proven() {
    // A long header up to the end of our connection ID, as a quote.
    let mut quote = vec![0xc0, 0, 0, 0, 1, 8];
    quote.extend(DCID);
    quote.push(8);
    quote.extend(cid(1));
    let mut unknown = quote.clone();
    unknown[15..].fill(0xee);
    let (port, host) = ((3, 3), (3, 1));
    let (server_ip, router) = ("127.0.0.1".parse().ok(), "10.0.0.1".parse().ok());
    let (whole, short) = (&quote[..], &[][..]);
    for (name, (kind, code), offender, quote, refused, unproven, unmatched) in [
        ("quoted", port, router, whole, true, 0, 0),
        ("short, by the server", port, server_ip, short, true, 0, 0),
        ("short, by a router", port, router, short, false, 1, 0),
        ("short, by nobody", port, None, short, false, 1, 0),
        ("another code", host, server_ip, whole, false, 0, 0),
        ("unknown ID", port, server_ip, &unknown[..], false, 0, 1),
        ("no ID", port, server_ip, &[0xc0; 60][..], false, 0, 1),
    ] {
        let mut probes = probes();
        let handle = sent(&mut probes, 0);
        let icmp = Icmp {
            kind,
            code,
            v6: false,
            offender,
        };
        probes.icmp(0, server(), &icmp, quote, MS);
        let counts = probes.counts();
        assert_eq!(
            (counts.unproven_icmp, counts.unmatched_icmp),
            (unproven, unmatched),
            "{name}"
        );
        let open = probes.sending(handle, Kind::New).is_some();
        assert_eq!(open, !refused, "{name}");
        expire(&mut probes, MS + COOLDOWN);
        let expected = [(Outcome::Refused, 1, 0)];
        let expected = if refused { &expected[..] } else { &[] };
        assert_eq!(records(&mut probes), expected, "{name}");
    }
    let mut probes = probes();
    sent(&mut probes, 0);
    let icmp = Icmp {
        kind: 3,
        code: 3,
        v6: false,
        offender: None,
    };
    let elsewhere = "127.0.0.2:443".parse().unwrap();
    probes.icmp(0, elsewhere, &icmp, &quote, MS);
    assert_eq!(probes.counts().unmatched_icmp, 1, "quotes another server");
}

#[test]
fn what_cannot_be_sent_ends_its_probe() {
    for (kind, expected, failed_closes) in [
        (Kind::New, vec![(Outcome::SendFailed, 0, 0)], 0),
        (Kind::NextAttempt, vec![(Outcome::Timeout, 1, 0)], 0),
        (Kind::Token, vec![(Outcome::Timeout, 1, 0)], 0),
        (Kind::Close, vec![(Outcome::Timeout, 1, 0)], 1),
    ] {
        let mut probes = probes();
        let handle = connect(&mut probes, TargetRef::Listed(0), 0);
        let why = "no buffer space".to_owned();
        probes.not_sent(handle, kind, Outcome::SendFailed, why, MS);
        if kind == Kind::Close {
            assert_eq!(probes.counts().failed_closes, failed_closes);
        }
        expire(&mut probes, MS + COOLDOWN);
        assert_eq!(records(&mut probes), expected, "{kind:?}");
        assert_eq!(probes.len(), 0, "{kind:?}");
    }
}

#[test]
fn stamps_belong_to_one_attempt_before_or_after_a_retry() {
    let mut probes = probes();
    let handle = connect(&mut probes, TargetRef::Listed(0), 0);
    let first = probes.sent(handle, Kind::New, 0, None, 0, START).unwrap();
    let token = probes.sent(handle, Kind::Token, 0, None, MS, stamp(MS));
    probes.stamped(first, START + 5);
    let of = |probes: &mut Probes| {
        let flight = probes.sending(handle, Kind::New).unwrap();
        (flight.first_sent, flight.sent_at, flight.sent())
    };
    assert_eq!(
        of(&mut probes),
        (Some(START + 5), None, stamp(MS)),
        "times refer to the Initial with the token"
    );
    probes.stamped(token.unwrap(), stamp(MS) + 5);
    let at = stamp(MS) + 5;
    assert_eq!(of(&mut probes), (Some(START + 5), Some(at), at));
    expire(&mut probes, WINDOW);
    assert_eq!(
        probes.queue().next_attempts(),
        0,
        "the first window is over"
    );
    expire(&mut probes, MS + WINDOW);
    assert_eq!(
        probes.queue().next_attempts(),
        1,
        "that of the token counts"
    );
    probes.stop();
    expire(&mut probes, MS + WINDOW);
    assert_eq!((probes.len(), probes.counts().tally.not_done), (0, 1));
    assert!(
        probes.sent(handle, Kind::New, 0, None, 0, START).is_some(),
        "the stamp of a finished probe comes too"
    );
}

#[test]
fn a_run_that_is_cut_short_closes_answered_probes_alone() {
    let mut probes = probes();
    let answered = sent(&mut probes, 0);
    feed(&mut probes, server(), answer(1), MS);
    probes.stop();
    probes.end_answered(2 * MS);
    assert_eq!(probes.queue().pop(0), Some((answered, Kind::Close)));
    let silent = probes.connect(TargetRef::Listed(1), (8, 0), server(), 0, DCID);
    probes.sent(silent, Kind::New, 0, None, 2 * MS, stamp(2 * MS));
    probes.end_answered(3 * MS);
    assert_eq!(probes.queue().pop(0), None);
    assert_eq!(probes.next_at(0), Some(SETTLE + MS));
    probes.finish_all();
    assert_eq!(records(&mut probes), [(Outcome::Coalesced, 1, 0)]);
    let tally = &probes.counts().tally;
    assert_eq!((tally.sent, tally.not_done), (1, 1));
}

#[test]
fn an_answer_of_which_more_may_come_is_closed_and_no_record_of_a_run_that_is_cut_short() {
    for (cut_at, recorded) in [(2 * MS, 0), (WINDOW, 1)] {
        let mut probes = probes();
        let handle = sent(&mut probes, 0);
        feed(&mut probes, server(), ack(1), MS);
        probes.stop();
        expire(&mut probes, cut_at);
        probes.end_answered(cut_at);
        assert_eq!(probes.queue().pop(0), Some((handle, Kind::Close)));
        assert_eq!(probes.queue().pop(0), None);
        probes.finish_all();
        let expected = vec![(Outcome::AckOnly, 1, 0); recorded];
        assert_eq!(records(&mut probes), expected, "{cut_at}");
        let tally = &probes.counts().tally;
        let counted = (tally.sent, tally.not_done);
        assert_eq!(counted, (recorded as u64, 1 - recorded as u64));
    }
}
