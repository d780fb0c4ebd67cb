//! Connections to a real server without I/O.

mod acknowledgements;
mod certificates;
mod hostile;
mod idle;
mod key_updates;
mod noise;
mod paths;
mod permuted;
mod rules;
mod second;
mod versions;
mod world;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use firstflight_core::clock::Mono;

use super::*;
use crate::outcome::Stage;
use crate::request::{Requests, control};
use crate::tls::{KeyShare, Verify};
use world::{Fate, OK, Reaction, SETTINGS, World, authority, tls_with};

const MS: Mono = 1_000_000;
/// One-way delay.
const DELAY: Mono = 10 * MS;
const CLIENT: [u8; 8] = [7; 8];

fn context(key_share: KeyShare, verify: Verify) -> Arc<Context> {
    Arc::new(Context {
        tls: Tls::new(key_share, verify, None, false).unwrap(),
        versions: vec![Version::V1],
        control: control().unwrap().into(),
        contact: b"me@example.org".to_vec(),
        timeout: 10_000 * MS,
    })
}

fn client_with(context: Arc<Context>) -> Connection {
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let requests = Requests::new("/".to_owned(), "test".to_owned());
    let request = requests.to("a.test", (ip, 443).into());
    Connection::new(context, ("a.test", ip), (CLIENT, [8; 8]), request, 1252, 0).unwrap()
}

fn client() -> Connection {
    client_with(context(KeyShare::X25519, Verify::Signature))
}

/// Returns a milestone's time, in one-way delays.
fn delays(milestone: observed::Milestone) -> Option<u64> {
    milestone.map(|(at, _)| at as u64 / DELAY)
}

#[test]
fn a_handshake_and_a_response_take_two_round_trips() {
    for (key_share, first_flight) in [(KeyShare::X25519, 1), (KeyShare::X25519mlkem768, 2)] {
        let mut world = World::new(b"h3");
        let mut client = client_with(context(key_share, Verify::Signature));
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(
            (observed.outcome, observed.stage()),
            (Some(Outcome::Done), Stage::Response)
        );
        assert_eq!(client.http(), Http::Response);
        assert_eq!(
            (delays(observed.ack), delays(observed.hello)),
            (Some(2), Some(2))
        );
        assert_eq!(
            (delays(observed.certificate), delays(observed.handshake)),
            (Some(2), Some(2))
        );
        let later = [observed.confirmed, observed.settings, observed.response].map(delays);
        assert_eq!(later, [Some(4); 3]);
        assert_eq!(observed.retransmissions, 0);
        assert_eq!(observed.sent_unvalidated.datagrams, first_flight);
        assert!(observed.first_flight.bytes > 500, "{key_share:?}");
        assert_eq!(observed.first_flight, observed.received_unvalidated);
        assert_eq!(
            observed.received_handshake,
            Some(observed.first_flight.bytes)
        );
        assert!(observed.received.bytes > observed.first_flight.bytes);
        assert_eq!(
            observed.rtt.map(|(first, ..)| first),
            Some(2 * DELAY as i64)
        );
        assert_eq!(client.note.signature_valid, Some(true));
        assert!(
            observed.discarded == 0 && observed.detail.is_none(),
            "{observed:?}"
        );
        // The server has received our close.
        let (_, server) = world.server.as_mut().unwrap();
        assert!(server.is_drained() || server.is_closed());
    }
}

#[test]
fn an_ack_of_half_a_client_hello_is_told_from_one_of_all() {
    use KeyShare::{X25519, X25519mlkem768};
    for (key_share, fate, number, acked, answers) in [
        (X25519, Fate::Arrives, 0, vec![1], ["coalesced"; 2]),
        (
            X25519mlkem768,
            Fate::Arrives,
            0,
            vec![1, 2],
            ["coalesced"; 2],
        ),
        // For a millisecond, the server has only half of the ClientHello.
        (
            X25519mlkem768,
            Fate::Late,
            0,
            vec![2],
            ["coalesced", "iack"],
        ),
        (
            X25519mlkem768,
            Fate::Late,
            1,
            vec![1],
            ["coalesced", "iack"],
        ),
    ] {
        let mut world = World::new(b"h3");
        world.fate = (0, number, fate);
        let mut client = client_with(context(key_share, Verify::Signature));
        world.run(&mut client);
        let observed = &client.observed;
        let datagrams = key_share.hello_datagrams() as u8;
        assert_eq!(
            (observed.outcome, observed.hello_datagrams),
            (Some(Outcome::Done), datagrams)
        );
        assert_eq!(
            observed.first_acked, acked,
            "{key_share:?} {fate:?} {number}"
        );
        let covers = acked.len() == usize::from(datagrams);
        assert_eq!(observed.ack_covers_hello, Some(covers));
        let found = [observed.first_answer(), observed.first_answer_any_ack()];
        assert_eq!(found, answers.map(Some), "{key_share:?} {fate:?} {number}");
        assert_eq!(observed.first_ack == observed.ack, covers);
    }
}

#[test]
fn datagrams_of_a_client_hello_are_counted_once_and_again_after_a_retry() {
    for (retry, fate) in [(false, Fate::Lost), (true, Fate::Arrives)] {
        let mut world = World::new(b"h3");
        world.retry = retry;
        world.fate = (0, 1, fate);
        let mut client = client_with(context(KeyShare::X25519mlkem768, Verify::None));
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(
            (observed.outcome, observed.retry),
            (Some(Outcome::Done), retry)
        );
        assert_eq!(observed.hello_datagrams, 2, "retry: {retry}");
        assert_eq!(observed.first_acked.first(), Some(&1), "retry: {retry}");
    }
}

#[test]
fn a_server_of_another_protocol_is_asked_nothing() {
    let mut world = World::new(b"hq-interop");
    let offer = ["h3".to_owned(), "hq-interop".to_owned()];
    let shared = context(KeyShare::X25519, Verify::None);
    let tls = Tls::new(KeyShare::X25519, Verify::None, None, false).unwrap();
    let shared = Arc::new(Context {
        tls: tls.with_hello(&offer, false),
        versions: vec![Version::V1],
        control: shared.control.clone(),
        contact: Vec::new(),
        timeout: shared.timeout,
    });
    let mut client = client_with(shared);
    world.run(&mut client);
    let observed = &client.observed;
    assert_eq!(
        (observed.outcome, observed.stage()),
        (Some(Outcome::Done), Stage::Confirmed)
    );
    assert_eq!(client.http(), Http::NotOffered);
    assert!(!client.names_server && !world.answered);
    let (_, server) = world.server.as_mut().unwrap();
    let session = server.crypto_session().handshake_data().unwrap();
    let data = session
        .downcast::<quinn_proto::crypto::rustls::HandshakeData>()
        .unwrap();
    assert_eq!(
        (data.protocol.as_deref(), data.server_name),
        (Some(&b"hq-interop"[..]), None)
    );
}

#[test]
fn what_is_not_checked_is_unknown() {
    let mut client = client_with(context(KeyShare::X25519, Verify::None));
    World::new(b"h3").run(&mut client);
    assert_eq!(client.observed.outcome, Some(Outcome::Done));
    assert_eq!(client.note.signature_valid, None);
}

#[test]
fn no_single_datagram_is_needed_more_than_once() {
    for from in [0, 1] {
        for number in 0..6 {
            for fate in [Fate::Lost, Fate::Twice, Fate::Late, Fate::Broken] {
                let mut world = World::new(b"h3");
                world.fate = (from, number, fate);
                let mut client = client();
                world.run(&mut client);
                let observed = &client.observed;
                assert_eq!(
                    (observed.outcome, client.http()),
                    (Some(Outcome::Done), Http::Response),
                    "{fate:?} {number} of {from}: {observed:?}"
                );
                let milestones = [observed.hello, observed.handshake, observed.response];
                let times = milestones.map(|milestone| milestone.map(|(at, _)| at));
                assert!(times.is_sorted(), "{fate:?} {number} of {from}: {times:?}");
            }
        }
    }
}

#[test]
fn a_retry_is_followed_and_times_begin_again() {
    let mut world = World::new(b"h3");
    world.retry = true;
    let mut client = client();
    world.run(&mut client);
    let observed = &client.observed;
    assert_eq!(
        (observed.outcome, observed.retry),
        (Some(Outcome::Done), true)
    );
    assert_eq!(client.sent_at(), Some(2 * DELAY as i64));
    assert_eq!(
        (delays(observed.hello), delays(observed.response)),
        (Some(4), Some(6))
    );
    assert_eq!(observed.first_flight.datagrams, 1);
}

#[test]
fn what_becomes_of_the_request() {
    for (answer, http, close) in [
        (Reaction::Nothing, Http::NoResponse, None),
        (Reaction::Close, Http::NoResponse, Some(0x105)),
        (Reaction::Reset, Http::Reset, None),
        (Reaction::Broken, Http::Malformed, None),
        (Reaction::Half, Http::Incomplete, None),
    ] {
        let mut world = World::new(b"h3");
        world.answer = answer;
        let mut client = client();
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(
            (observed.outcome, client.http()),
            (Some(Outcome::Done), http),
            "{answer:?}"
        );
        let found = observed.close.as_ref();
        assert_eq!(found.map(|close| close.code), close, "{answer:?}");
        assert!(found.is_none_or(|close| close.by_application && close.reason == "enough"));
    }
}

#[test]
fn a_server_without_http3_ends_the_handshake_by_an_alert() {
    let mut world = World::new(b"other");
    let mut client = client();
    world.run(&mut client);
    let observed = &client.observed;
    assert_eq!(observed.outcome, Some(Outcome::HandshakeFailed));
    // no_application_protocol (RFC 9001 8.1).
    assert_eq!(observed.alert, Some((120, observed::By::Server)));
}
