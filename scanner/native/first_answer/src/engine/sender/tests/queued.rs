//! Closes and tokens, which leave from the port of their probe.

use firstflight_wire::{ConnectionId, write_retry};

use super::*;
use crate::engine::loopback::{answer, cids};
use crate::exchange::VERSION;

/// Adds `count` answered probes with closes from number `port`.
fn answered(engine: &mut Engine, server: SocketAddr, count: u32, port: u16) {
    for index in 0..count {
        engine.open(index, server, port);
        engine.answer(index, server, port);
    }
    engine.probes.end_answered(0);
}

#[test]
fn an_answered_probe_is_closed() {
    let mut server = Server::start("127.81.1.7");
    let mut engine = engine(&["127.81.0.7"], FAST, &[server.address], patient());
    send_all(&mut engine);
    let (peer, initial) = server.receive(1).remove(0);
    engine.receive_answer(&mut server, peer, &answer(&initial));
    engine.send_queued(true);
    let (from, close) = server.receive(1).remove(0);
    assert_eq!((from, close.len()), (peer, 1200));
    assert_eq!(
        (
            engine.probes.counts().closes,
            engine.probes.queue().is_empty()
        ),
        (1, true)
    );
    assert_eq!(outcomes(&engine.records()), [Outcome::Coalesced]);
}

#[test]
fn closes_wait_for_company_unless_all_are_to_leave_at_once() {
    let mut server = Server::start("127.81.1.8");
    let mut engine = engine(&["127.81.0.8"], FAST, &[server.address], patient());
    let handle = engine.open(0, server.address, 3);
    engine.answer(0, server.address, 3);
    // The close was just added: `later` is in the future.
    let later = 3600 * SECOND;
    engine.probes.end_answered(later);
    engine.send_queued(false);
    assert!(!engine.probes.queue().is_empty());
    engine.send_queued(true);
    assert!(engine.probes.queue().is_empty());
    let (from, _) = server.receive(1).remove(0);
    assert_eq!(from, engine.sender.egress().ports().locals()[3]);
    assert!(engine.probes.sending(handle, Kind::Close).is_some());
}

#[test]
fn closes_stay_under_the_ceiling_of_all_datagrams() {
    let mut server = Server::start("127.81.1.9");
    let mut engine = engine(&["127.81.0.9"], 1.0, &[server.address; 5], patient());
    answered(&mut engine, server.address, 5, 0);
    // With a rate of 1, two datagrams of all kinds may be sent in a second.
    engine.send_queued(true);
    assert_eq!(engine.probes.counts().closes, 2);
    server.receive(2);
}

#[test]
fn more_closes_than_a_batch_leave_in_one_call() {
    let mut server = Server::start("127.81.1.10");
    let mut engine = engine(&["127.81.0.10"], FAST, &[server.address; 130], patient());
    answered(&mut engine, server.address, 130, 1);
    engine.send_queued(true);
    assert_eq!(engine.probes.counts().closes, 130);
    server.receive(130);
}

/// Passes a Retry with a token of `size` bytes to an open probe.
fn retry(engine: &mut Engine, server: SocketAddr, size: usize) {
    let mut out = [0; 1500];
    let ours = ConnectionId::from(cids().of(2, 1));
    let scid = ConnectionId::from([7; 8]);
    let token = vec![3; size];
    let n = write_retry(&mut out, VERSION, &DCID.into(), &ours, &scid, &token, 0).unwrap();
    engine.feed(server, 0, &mut out[..n]);
}

#[test]
fn the_token_of_a_retry_goes_back_from_the_same_port() {
    let mut server = Server::start("127.81.1.11");
    let mut engine = engine(&["127.81.0.11"], FAST, &[server.address], patient());
    engine.open(0, server.address, 0);
    retry(&mut engine, server.address, 50);
    engine.send_queued(true);
    let (from, bytes) = server.receive(1).remove(0);
    assert_eq!(from, engine.sender.egress().ports().locals()[0]);
    assert_eq!(bytes.len(), 1252);
    assert!(bytes.windows(50).any(|part| part == [3; 50]));
    assert_eq!(engine.probes.counts().token_initials, 1);
}

#[test]
fn a_token_that_does_not_fit_is_not_sent() {
    let server = Server::start("127.81.1.12");
    let mut engine = engine(&["127.81.0.12"], FAST, &[server.address], patient());
    engine.open(0, server.address, 0);
    retry(&mut engine, server.address, 1200);
    engine.send_queued(true);
    let record = engine.records().remove(0);
    assert_eq!(record.outcome, Outcome::Retry);
    let detail = record.sent.unwrap().exchange.rare.unwrap().detail.unwrap();
    assert!(
        detail.starts_with("the Retry's token does not fit the Initial"),
        "{detail}"
    );
    assert_eq!(engine.probes.counts().token_initials, 0);
}
