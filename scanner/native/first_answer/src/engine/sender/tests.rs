//! Sends datagrams to servers on loopback.

use std::net::SocketAddr;

use firstflight_core::clock::{SECOND, wall};
use firstflight_core::feed::{Feed, Skips};
use firstflight_core::receive::Event;
use firstflight_wire::{ConnectionId, write_retry};

use super::*;
use crate::engine::Engine;
use crate::engine::loopback::{DCID, FAST, Server, answer, cids, engine, parts, patient, until};
use crate::exchange::VERSION;
use crate::finished::FinishedProbe;
use crate::probes::Settings;

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

/// Adds `count` answered probes with closes from number `port`.
fn answered(engine: &mut Engine, server: SocketAddr, count: u32, port: u16) {
    for index in 0..count {
        engine.open(index, server, port);
        engine.answer(index, server, port);
    }
    engine.probes.end_answered(0);
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

fn two_attempts() -> Settings {
    Settings {
        attempts: 2,
        ..patient()
    }
}

/// Sends further connections once.
fn send_next_attempts(engine: &mut Engine) {
    let mut to = Reports {
        probes: &mut engine.probes,
        receiver: &mut engine.receiver,
    };
    engine
        .sender
        .send_next_attempts(engine.backlog.groups(), &mut to);
}

#[test]
fn a_further_connection_leaves_from_another_port_of_its_family() {
    let (mut server, other) = (Server::start("127.81.1.13"), Server::at("::1", 4501));
    let (v4, v6) = (server.address, other.address);
    let mut engine = engine(&["127.81.0.13", "::1"], FAST, &[v4; 40], two_attempts());
    let (v4_ports, v6_ports) = {
        let ports = engine.sender.egress().ports();
        (ports.of(true).to_vec(), ports.of(false).to_vec())
    };
    for index in 0..40 {
        let (to, port) = if index % 4 == 0 {
            (v6, v6_ports[0])
        } else {
            (v4, v4_ports[0])
        };
        engine.open(index, to, port);
    }
    end_silent(&mut engine);
    assert_eq!(engine.probes.queue().next_attempts(), 40);
    send_next_attempts(&mut engine);
    assert_eq!(engine.probes.queue().next_attempts(), 0);
    assert_eq!(engine.probes.counts().retransmissions, 40);
    let locals = engine.sender.egress().ports().locals();
    for (from, bytes) in server.receive(30) {
        assert_ne!(from, locals[usize::from(v4_ports[0])]);
        assert_eq!(bytes.len(), 1252);
    }
    assert_eq!(engine.probes.len(), 40);
}

#[test]
fn a_further_connection_that_waits_does_not_leave_once_its_group_is_paused() {
    let mut server = Server::start("127.81.1.23");
    for (pause, sent) in [(0, 2), (1, 0), (2, 0), (3, 2)] {
        let mut engine = engine(&["127.81.0.23"], FAST, &[server.address; 2], two_attempts());
        for index in 0..2 {
            let target = TargetRef::Listed(index);
            let details = (index + 2, 64500);
            let handle = engine
                .probes
                .connect(target, details, server.address, 0, DCID);
            engine.probes.sent(handle, Kind::New, 0, None, 0, wall());
        }
        end_silent(&mut engine);
        assert_eq!(engine.probes.queue().next_attempts(), 2);
        let groups = engine.backlog.groups_mut();
        match pause {
            0 => {}
            1 => groups.pause(64500),
            2 => groups.refuse(64500),
            _ => groups.pause(64501),
        }
        send_next_attempts(&mut engine);
        assert_eq!(engine.probes.queue().next_attempts(), 0);
        assert_eq!(engine.probes.counts().retransmissions, sent);
        server.receive(sent as usize);
        end_silent(&mut engine);
        let attempts = 1 + u8::from(sent > 0);
        let records = engine.records();
        assert_eq!(outcomes(&records), [Outcome::Timeout; 2]);
        for record in records {
            assert_eq!(record.sent.unwrap().attempts, attempts);
        }
    }
}

#[test]
fn a_machine_without_ipv6_sends_further_connections_all_the_same() {
    let mut server = Server::start("127.81.1.15");
    let targets = [server.address; 16];
    let mut engine = engine(&["127.81.0.15"], FAST, &targets, two_attempts());
    send_next_attempts(&mut engine);
    assert_eq!(engine.probes.counts().retransmissions, 0);
    // A probe from each port. Whichever port is chosen, a probe has to wait for another port.
    for port in 0..16 {
        engine.open(u32::from(port), server.address, port);
    }
    end_silent(&mut engine);
    send_next_attempts(&mut engine);
    assert_eq!(engine.probes.queue().next_attempts(), 0);
    server.receive(16);
    let records = stamped_records(&mut engine, 16);
    let locals = engine.sender.egress().ports().locals();
    for record in records {
        let TargetRef::Listed(index) = record.target else {
            panic!("a target of the list");
        };
        let sent = record.sent.unwrap();
        assert_eq!((sent.attempts, sent.sent_at.is_some()), (2, true));
        assert_ne!(sent.src_port, locals[index as usize].port());
    }
}

#[test]
fn a_datagram_that_the_policy_or_the_rate_forbids_is_not_sent() {
    let server = Server::start("127.81.1.16");
    let forbidden: SocketAddr = "10.0.0.1:443".parse().unwrap();
    let targets = [forbidden, server.address];
    for (index, allow, outcome, why) in [
        (
            0,
            true,
            Outcome::Blocked,
            "special-purpose address (private use)",
        ),
        (
            1,
            false,
            Outcome::SendFailed,
            "the rate did not allow it, which is a defect of the prober",
        ),
    ] {
        let mut engine = engine(&["127.81.0.16"], FAST, &targets, patient());
        let to = targets[index as usize];
        let handle = engine
            .probes
            .connect(TargetRef::Listed(index), (2, 0), to, 0, DCID);
        if allow {
            engine.await_rate(1);
        }
        engine
            .sender
            .push(handle, Kind::New, None, &mut engine.probes);
        let record = engine.probes.finished().next().unwrap();
        assert_eq!(
            (record.outcome, record.why.as_deref()),
            (outcome, Some(why))
        );
        assert!(engine.sender.batch.is_empty());
    }
}

#[test]
fn a_datagram_of_a_probe_that_ended_meanwhile_is_left_out() {
    let server = Server::start("127.81.1.17");
    let mut engine = engine(&["127.81.0.17"], FAST, &[server.address], patient());
    let handle = engine.open(0, server.address, 0);
    engine.sender.egress_mut().allow_other(0);
    engine
        .sender
        .push(handle, Kind::Close, None, &mut engine.probes);
    engine
        .sender
        .push(handle, Kind::NextAttempt, None, &mut engine.probes);
    assert!(engine.sender.batch.is_empty());
    engine
        .sender
        .push(handle, Kind::Token, None, &mut engine.probes);
    assert_eq!(engine.sender.batch.len(), 1);
}

#[test]
fn a_datagram_that_the_system_refuses_does_not_hold_up_the_others() {
    let mut server = Server::start("127.81.1.18");
    let mut nowhere = server.address;
    nowhere.set_port(0);
    let targets = [
        server.address,
        nowhere,
        server.address,
        nowhere,
        nowhere,
        server.address,
    ];
    let mut engine = engine(&["127.81.0.18"], FAST, &targets, patient());
    engine.await_rate(6);
    engine.send_new(6);
    server.receive(3);
    let failed: Vec<_> = engine.probes.finished().collect();
    assert_eq!(outcomes(&failed), [Outcome::SendFailed; 3]);
    for record in &failed {
        let why = record.why.as_deref().unwrap();
        assert!(why.starts_with("the system refused to send: "), "{why}");
    }
    let records = stamped_records(&mut engine, 1);
    assert_eq!(outcomes(&records), [Outcome::Timeout; 3]);
    assert!(engine.sender.batch.is_empty());
}

#[test]
fn an_error_of_an_earlier_datagram_is_read_and_the_datagram_is_sent_again() {
    let mut server = Server::start("127.81.1.19");
    let mut closed = server.address;
    closed.set_port(9);
    let targets = [closed, server.address, server.address];
    let mut engine = engine(&["127.81.0.19"], FAST, &targets, patient());
    let mut handles = Vec::new();
    for (index, port) in [(0, 0), (1, 1), (2, 0)] {
        engine.await_rate(1);
        let to = targets[index as usize];
        let (target, line) = (TargetRef::Listed(index), index + 2);
        let handle = engine.probes.connect(target, (line, 0), to, port, DCID);
        handles.push(handle);
        engine
            .sender
            .push(handle, Kind::New, None, &mut engine.probes);
        let mut to = Reports {
            probes: &mut engine.probes,
            receiver: &mut engine.receiver,
        };
        engine.sender.send_batch(usize::from(port), &mut to);
        if index > 0 {
            // When this datagram has arrived, the ICMP message about the first one has arrived too.
            server.receive(1);
        }
    }
    assert_eq!(engine.probes.finished().count(), 0);
    until("the ICMP message and the stamps", || {
        engine.receive();
        let refused = engine.probes.sending(handles[0], Kind::New).is_none();
        let last = engine.probes.sending(handles[2], Kind::New);
        (refused && last?.sent_at.is_some()).then_some(())
    });
    end_silent(&mut engine);
    let records = engine.records();
    assert_eq!(
        outcomes(&records),
        [Outcome::Refused, Outcome::Timeout, Outcome::Timeout]
    );
    assert!(
        records
            .iter()
            .all(|record| record.sent.as_ref().unwrap().sent_at.is_some())
    );
}

/// An engine with a feed that plans probes of these addresses for a time in the past.
fn planned(source: &str, targets: &[SocketAddr]) -> Engine {
    let mut lines = String::new();
    let start = wall() - SECOND as i64;
    for (number, to) in (1_u32 << 31..).zip(targets) {
        lines += &format!(
            "slot {number} {start} 3600000 1 0 {} {}\n",
            to.ip(),
            to.port()
        );
    }
    lines += "end\n";
    let mut parts = parts(&[source], FAST, &[], patient());
    let feed = Feed::of(move || std::io::Cursor::new(lines)).unwrap();
    parts.schedule = Schedule::new(Some(feed), Skips::open(None).unwrap(), start, true);
    Engine::new(parts).unwrap()
}

/// Reads the feed until a planned probe is due.
fn read_feed(engine: &mut Engine) {
    until("the feed", || {
        engine.schedule.read(engine.backlog.groups_mut());
        engine.schedule.next_at()
    });
}

/// Sends planned probes once.
fn send_planned(engine: &mut Engine, stopping: bool, behind: bool) {
    let mut to = Reports {
        probes: &mut engine.probes,
        receiver: &mut engine.receiver,
    };
    let (schedule, backlog) = (&mut engine.schedule, &mut engine.backlog);
    engine
        .sender
        .send_planned(schedule, backlog, &mut to, stopping, behind);
}

#[test]
fn planned_probes_leave_or_become_records_and_all_are_counted() {
    let mut server = Server::start("127.81.1.20");
    let [v6, forbidden] = ["[::1]:4433", "10.0.0.1:443"].map(|to| to.parse().unwrap());
    let targets = [server.address, v6, forbidden, server.address];
    let mut engine = planned("127.81.0.20", &targets);
    until("all planned probes", || {
        engine.schedule.read(engine.backlog.groups_mut());
        send_planned(&mut engine, false, false);
        engine.schedule.is_finished().then_some(())
    });
    let got = server.receive(2);
    assert!(got.iter().all(|(_, bytes)| bytes.len() == 1252));
    let unsent: Vec<_> = engine.probes.finished().collect();
    assert_eq!(outcomes(&unsent), [Outcome::SendFailed, Outcome::Blocked]);
    assert_eq!(unsent[0].why.as_deref(), Some("this machine has no IPv6"));
    assert_eq!(
        (
            engine.probes.counts().tally.targets,
            engine.schedule.skipped()
        ),
        (4, 0)
    );
    let records = engine.records();
    assert_eq!(records.len(), 0, "no answer, no record yet");
    assert_eq!(engine.probes.counts().tally.not_done, 2);
}

#[test]
fn planned_probes_wait_while_records_cannot_be_written() {
    let mut server = Server::start("127.81.1.21");
    let mut engine = planned("127.81.0.21", &[server.address]);
    read_feed(&mut engine);
    send_planned(&mut engine, false, true);
    assert_eq!((engine.probes.len(), engine.schedule.skipped()), (0, 0));
    assert!(engine.schedule.next_at().is_some(), "it waits");
    until("a planned probe", || {
        send_planned(&mut engine, false, false);
        (engine.probes.len() == 1).then_some(())
    });
    server.receive(1);
}

#[test]
fn planned_probes_wait_while_the_most_are_in_flight() {
    let target = "127.81.1.24:9".parse().unwrap();
    let mut engine = planned("127.81.0.24", &[target]);
    read_feed(&mut engine);
    let most = engine.probes.room();
    for index in 0..most as u32 {
        engine.open(index, target, 0);
    }
    send_planned(&mut engine, false, false);
    assert_eq!((engine.probes.len(), engine.schedule.skipped()), (most, 0));
    assert!(engine.schedule.next_at().is_some(), "it waits");
}

#[test]
fn planned_probes_are_skipped_when_the_run_is_being_stopped() {
    let server = Server::start("127.81.1.22");
    let mut engine = planned("127.81.0.22", &[server.address]);
    read_feed(&mut engine);
    send_planned(&mut engine, true, false);
    assert_eq!((engine.probes.len(), engine.schedule.skipped()), (0, 1));
    assert_eq!(engine.probes.counts().tally.targets, 0);
}
