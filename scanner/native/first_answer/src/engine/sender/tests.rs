//! Sends datagrams to servers on loopback.

mod next_attempts;
mod planned;
mod queued;
mod unsent;

use std::net::SocketAddr;

use firstflight_core::clock::{SECOND, wall};
use firstflight_core::receive::Event;

use super::*;
use crate::engine::Engine;
use crate::engine::loopback::{DCID, FAST, Server, engine, patient, until};
use crate::finished::FinishedProbe;

/// Sends new probes until the backlog is empty.
fn send_all(engine: &mut Engine) {
    until("all targets", || {
        engine.send_new(usize::MAX);
        engine.backlog.is_empty().then_some(())
    });
}

/// Waits until every probe has its transmit stamp, and returns the records.
fn stamped_records(engine: &mut Engine, count: usize) -> Vec<FinishedProbe> {
    let mut stamps = 0;
    until("transmit stamps", || {
        let (probes, egress) = (&mut engine.probes, engine.sender.egress_mut());
        engine.receiver.read_all(|port, event| {
            if let Event::Stamp { number, stamp } = event
                && let Some(key) = egress.stamped(port, number, stamp)
            {
                probes.stamped(key, stamp);
                stamps += 1;
            }
        });
        (stamps >= count).then_some(())
    });
    end_silent(engine);
    engine.records()
}

/// Completes all probes as if their answer windows had expired.
fn end_silent(engine: &mut Engine) {
    let groups = engine.backlog.groups();
    engine.probes.expire(2 * 3600 * SECOND, groups);
}

fn outcomes(records: &[FinishedProbe]) -> Vec<Outcome> {
    records.iter().map(|record| record.outcome).collect()
}

#[test]
fn new_probes_leave_from_the_bound_ports_and_get_their_stamps() {
    let mut server = Server::start("127.81.1.1");
    let targets = [server.address; 3];
    let mut engine = engine(&["127.81.0.1"], FAST, &targets, patient());
    send_all(&mut engine);
    let locals = engine.sender.egress().ports().locals();
    for (peer, bytes) in server.receive(3) {
        assert!(locals.contains(&peer));
        assert_eq!(bytes.len(), 1252);
    }
    assert_eq!(engine.probes.len(), 3);
    let records = stamped_records(&mut engine, 3);
    assert_eq!(outcomes(&records), [Outcome::Timeout; 3]);
    let mut lines: Vec<u32> = Vec::new();
    for record in &records {
        let sent = record.sent.as_ref().unwrap();
        assert!(sent.sent_at.is_some() && sent.sent_at == sent.first_sent);
        assert_eq!(sent.src_ip, "127.81.0.1".parse().ok());
        assert!(locals.iter().any(|local| local.port() == sent.src_port));
        let TargetRef::Listed(line) = record.target else {
            panic!("a target of the list");
        };
        lines.push(line);
    }
    lines.sort_unstable();
    assert_eq!(lines, [0, 1, 2]);
    assert_eq!(engine.probes.counts().missing_tx_stamps, 0);
}

#[test]
fn no_more_new_probes_leave_than_there_is_room_for() {
    let mut server = Server::start("127.81.1.2");
    let targets = [server.address; 5];
    let mut engine = engine(&["127.81.0.2"], FAST, &targets, patient());
    for (room, left) in [(0, 5), (2, 3), (0, 3), (9, 0)] {
        engine.await_rate(5);
        engine.send_new(room);
        assert_eq!(
            (engine.backlog.len(), engine.probes.len()),
            (left, 5 - left)
        );
    }
    server.receive(5);
}

#[test]
fn a_call_sends_16_batches_of_64_new_probes_at_most() {
    let server = Server::start("127.81.1.3");
    let targets = [server.address; 1100];
    let mut engine = engine(&["127.81.0.3"], FAST, &targets, patient());
    engine.await_rate(1100);
    engine.send_new(usize::MAX);
    assert_eq!((engine.probes.len(), engine.backlog.len()), (1024, 76));
    engine.await_rate(1100);
    engine.send_new(usize::MAX);
    assert_eq!((engine.probes.len(), engine.backlog.len()), (1100, 0));
}

#[test]
fn each_family_leaves_from_its_own_ports() {
    let mut servers = [Server::start("127.81.1.4"), Server::start("::1")];
    let [v4, v6] = [servers[0].address, servers[1].address];
    let targets = [v4, v6, v6, v4, v6];
    let mut engine = engine(&["127.81.0.4", "::1"], FAST, &targets, patient());
    send_all(&mut engine);
    assert_eq!(engine.probes.finished().count(), 0);
    for (server, (count, size)) in servers.iter_mut().zip([(2, 1252), (3, 1232)]) {
        assert!(
            server
                .receive(count)
                .iter()
                .all(|(_, bytes)| bytes.len() == size)
        );
    }
}

#[test]
fn all_ports_of_a_family_are_used() {
    let server = Server::start("127.81.1.5");
    let mut engine = engine(&["127.81.0.5", "::1"], FAST, &[server.address], patient());
    for v4 in [true, false] {
        let all = engine.sender.egress().ports().of(v4).to_vec();
        let mut drawn: Vec<u16> = (0..500).map(|_| engine.sender.random_port(v4)).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, all);
    }
}

#[test]
fn targets_without_a_family_or_a_permission_are_records_at_once() {
    let targets = ["[::1]:4433", "10.0.0.1:443"].map(|to| to.parse().unwrap());
    let mut engine = engine(&["127.81.0.6"], FAST, &targets, patient());
    send_all(&mut engine);
    let mut records: Vec<_> = engine.probes.finished().collect();
    records.sort_by_key(|record| record.outcome as usize);
    assert_eq!(outcomes(&records), [Outcome::SendFailed, Outcome::Blocked]);
    let reasons: Vec<_> = records
        .iter()
        .map(|record| record.why.clone().unwrap())
        .collect();
    assert_eq!(reasons[0], "this machine has no IPv6");
    assert!(reasons[1].contains("private use"), "{}", reasons[1]);
    assert_eq!(
        (engine.probes.len(), engine.probes.counts().tally.sent),
        (0, 0)
    );
}
