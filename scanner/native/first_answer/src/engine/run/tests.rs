//! A run's loop: its parts, and whole runs on loopback.

use std::path::PathBuf;

use firstflight_core::Failure;
use firstflight_core::clock::SECOND;
use firstflight_core::feed::{Feed, Schedule};
use firstflight_core::progress::Limit;
use firstflight_core::rate_limit::RateLimits;
use firstflight_core::records::{Segments, Sinks, Skips, Writer};
use firstflight_core::run::Engine as _;
use firstflight_core::targets::Backlog;

use super::*;
use crate::engine::Parts;
use crate::engine::gather::LONGEST_WAIT;
use crate::engine::loopback::{FAST, Server, answer, engine, list, parts, patient, until};
use crate::outcome::Outcome;
use crate::probes::Settings;
use crate::row::Columns;

/// Settings with deadlines of a millisecond.
fn hasty() -> Settings {
    Settings {
        window: SECOND / 1000,
        settle: SECOND / 1000,
        cooldown: SECOND / 1000,
        ..patient()
    }
}

/// A schedule that reads these lines, in a run with clock 0 at `start` (UTC).
fn schedule(lines: String, start: i64) -> Schedule {
    let feed = Feed::of(move || std::io::Cursor::new(lines)).unwrap();
    Schedule::new(Some(feed), Skips::open(None).unwrap(), start, true)
}

/// Reads the feed until there is a planned probe.
fn read_feed(engine: &mut Engine) {
    until("the feed", || {
        engine.schedule.read(engine.backlog.groups_mut());
        engine.schedule.next_at()
    });
}

#[test]
fn a_run_is_done_without_new_targets_and_open_probes() {
    let server = Server::start("127.82.1.1");
    for (name, listed, targets, stopping, open, done) in [
        ("an empty list", true, 0, false, false, true),
        ("targets are left", true, 1, false, false, false),
        ("targets are left, stopping", true, 1, true, false, true),
        ("an open probe", true, 0, false, true, false),
        ("an open probe, stopping", true, 0, true, true, false),
        ("a feed that goes on", false, 0, false, false, false),
        ("a feed that goes on, stopping", false, 0, true, false, true),
    ] {
        let targets = vec![server.address; targets];
        let mut parts = parts(&["127.82.0.1"], FAST, &targets, patient());
        parts.listed = listed;
        let mut engine = Engine::new(parts).unwrap();
        if stopping {
            engine.stop();
        }
        if open {
            engine.open(0, server.address, 0);
        }
        assert_eq!(engine.is_done(), done, "{name}");
    }
}

#[test]
fn a_run_of_the_feed_alone_ends_with_it() {
    let mut parts = parts(&["127.82.0.2"], FAST, &[], hasty());
    (parts.listed, parts.schedule) = (false, schedule("end\n".to_owned(), wall()));
    let result = Engine::new(parts).unwrap().run(&Signals::default());
    assert!(!result.interrupted && result.written.is_ok());
}

#[test]
fn a_feed_that_breaks_off_ends_the_run_as_interrupted() {
    for (name, lines, interrupted, written) in [
        ("without end", "hold 7\n", true, true),
        ("a line that cannot be read", "nonsense\n", false, false),
    ] {
        let server = Server::start("127.82.1.3");
        let mut parts = parts(&["127.82.0.3"], FAST, &[server.address], hasty());
        (parts.listed, parts.schedule) = (false, schedule(lines.to_owned(), wall()));
        let result = Engine::new(parts).unwrap().run(&Signals::default());
        assert_eq!(
            (result.interrupted, result.written.is_ok()),
            (interrupted, written),
            "{name}"
        );
        let tally = &result.counts.tally;
        assert_eq!(
            (tally.targets, tally.sent + tally.not_done),
            (1, 1),
            "{name}"
        );
    }
}

#[test]
fn packets_are_handled_several_at_a_time_above_1000_probes_per_second() {
    for (rate, burst, in_bulk) in [(1.0, 1, false), (1000.0, 20, false), (1100.0, 20, true)] {
        let engine = engine(&["127.82.0.4"], rate, &[], patient());
        assert_eq!(
            (engine.sender.egress().burst(), engine.pace.in_bulk()),
            (burst, in_bulk)
        );
    }
}

#[test]
fn there_is_room_while_records_are_written() {
    let mut engine = engine(&["127.82.0.5"], FAST, &[], patient());
    assert_eq!(engine.room(), engine.probes.room());
    engine.open(0, "127.82.1.5:9".parse().unwrap(), 0);
    assert_eq!(engine.room(), engine.probes.room());
    assert!(engine.room() > 1);
}

#[test]
fn stamps_icmp_and_datagrams_reach_their_probes() {
    let mut server = Server::start("127.82.1.6");
    let mut closed = server.address;
    closed.set_port(9);
    let settings = Settings {
        cooldown: 0,
        ..patient()
    };
    let mut engine = engine(&["127.82.0.6"], FAST, &[server.address, closed], settings);
    until("all targets", || {
        engine.send_new(9);
        engine.backlog.is_empty().then_some(())
    });
    let (peer, initial) = server.receive(1).remove(0);
    let before = engine.clock.now();
    let drained = engine.receive();
    assert!(drained >= before && drained <= engine.clock.now());
    let refused = until("the ICMP message", || {
        let drained = engine.receive();
        engine.probes.expire(drained, engine.backlog.groups());
        engine.probes.finished().next()
    });
    assert_eq!(refused.outcome, Outcome::Refused);
    assert!(refused.sent.unwrap().sent_at.is_some());
    engine.receive_answer(&mut server, peer, &answer(&initial));
    let answered = engine.records().remove(0);
    assert_eq!(answered.outcome, Outcome::Coalesced);
    let sent = answered.sent.unwrap();
    assert!(sent.exchange.hello.unwrap().at >= sent.sent_at.unwrap());
    assert_eq!(sent.ttl, Some(64));
}

#[test]
fn nothing_new_leaves_while_the_run_is_being_stopped() {
    let mut server = Server::start("127.82.1.7");
    for (stopping, left) in [(true, 2), (false, 0)] {
        let mut engine = engine(&["127.82.0.7"], FAST, &[server.address; 2], patient());
        if stopping {
            engine.stop();
        }
        engine.await_rate(2);
        engine.send();
        assert_eq!(
            (engine.backlog.len(), engine.probes.len()),
            (left, 2 - left)
        );
    }
    server.receive(2);
}

#[test]
fn closes_wait_for_company_in_bulk_alone() {
    let mut server = Server::start("127.82.1.8");
    for (rate, waits) in [(FAST, true), (1000.0, false)] {
        let mut engine = engine(&["127.82.0.8"], rate, &[server.address], patient());
        engine.stop();
        engine.open(0, server.address, 0);
        engine.answer(0, server.address, 0);
        engine.probes.end_answered(3600 * SECOND);
        engine.send();
        assert_eq!(engine.probes.queue().is_empty(), !waits, "{rate}");
    }
    server.receive(1);
}

#[test]
fn further_connections_and_planned_probes_leave_too() {
    let mut server = Server::start("127.82.1.9");
    let settings = Settings {
        attempts: 2,
        ..patient()
    };
    let mut parts = parts(&["127.82.0.9"], FAST, &[server.address], settings);
    let start = wall();
    let line = format!("slot 2147483648 {start} 3600000 1 0 127.82.1.9 4433\nend\n");
    parts.schedule = schedule(line, start);
    let mut engine = Engine::new(parts).unwrap();
    engine.open(0, server.address, 0);
    engine
        .probes
        .expire(2 * 3600 * SECOND, engine.backlog.groups());
    read_feed(&mut engine);
    until("both", || {
        engine.send();
        let done = engine.schedule.is_finished() && engine.backlog.is_empty();
        done.then_some(())
    });
    // The new probe of the list, the further connection, the planned probe.
    server.receive(3);
    let counts = engine.probes.counts();
    assert_eq!((counts.retransmissions, counts.tally.targets), (1, 2));
}

#[test]
fn behind_the_last_target_of_a_list_no_planned_probe_leaves() {
    let server = Server::start("127.82.1.21");
    for (name, listed, targets, left, skipped) in [
        ("some of the list is left", true, 1, 2, 0),
        ("all of it has begun", true, 0, 0, 1),
        ("there is no list", false, 0, 1, 0),
    ] {
        let targets = vec![server.address; targets];
        let mut parts = parts(&["127.82.0.21"], FAST, &targets, patient());
        let start = wall();
        let line = format!("slot 2147483648 {start} 3600000 1 0 127.82.1.21 4433\n");
        (parts.listed, parts.schedule) = (listed, schedule(line, start));
        let mut engine = Engine::new(parts).unwrap();
        read_feed(&mut engine);
        engine.await_rate(2);
        engine.send();
        let found = (engine.probes.len(), engine.schedule.skipped());
        assert_eq!(found, (left, skipped), "{name}");
    }
}

/// Returns when the next pass starts if no event arrives before.
fn due(engine: &Engine, now: Mono) -> Mono {
    match gather::next(&engine.wake_up(now)) {
        Wake::OnArrival(at) => at,
        Wake::At(at) => panic!("what comes would wait until {at}"),
    }
}

#[test]
fn the_next_pass_begins_when_something_is_due() {
    let now = 50 * SECOND;
    let server = Server::start("127.82.1.10");
    let at = |change: fn(&mut Engine), targets: usize, rate| {
        let targets = vec![server.address; targets];
        let mut engine = engine(&["127.82.0.10"], rate, &targets, patient());
        change(&mut engine);
        due(&engine, now)
    };
    assert_eq!(at(|_| (), 0, FAST), now + LONGEST_WAIT, "nothing is due");
    let next_new = at(|_| (), 1, FAST);
    assert!(next_new < now, "a new probe may leave at once: {next_new}");
    assert_eq!(
        at(Engine::stop, 1, FAST),
        now + LONGEST_WAIT,
        "nothing new leaves"
    );
    let queued = |engine: &mut Engine| {
        engine.open(0, "127.82.1.10:4433".parse().unwrap(), 0);
        engine.answer(0, "127.82.1.10:4433".parse().unwrap(), 0);
        engine.probes.end_answered(0);
    };
    assert_eq!(
        at(queued, 0, FAST),
        now + SECOND / 1000,
        "a close is queued"
    );
    // At a rate of 0.001 per second, a run's second probe is due long after the longest wait.
    let slow = at(
        |engine| {
            engine.await_rate(1);
            engine.send_new(1);
        },
        2,
        0.001,
    );
    assert_eq!(slow, now + LONGEST_WAIT);
}

#[test]
fn planned_probes_are_due_at_their_time() {
    let (now, start) = (50 * SECOND, wall());
    let line = format!(
        "slot 2147483648 {} 0 1 0 127.82.1.11 4433\nend\n",
        start + 7
    );
    let mut parts = parts(&["127.82.0.11"], FAST, &[], patient());
    parts.schedule = schedule(line, start);
    let mut engine = Engine::new(parts).unwrap();
    read_feed(&mut engine);
    assert_eq!(due(&engine, now), 7);
}

#[test]
fn in_bulk_a_pass_begins_2_ms_after_the_one_before_at_the_earliest() {
    let mut engine = engine(&["127.82.0.12"], FAST, &[], patient());
    for _ in 0..3 {
        let before = engine.clock.now();
        engine.resumed_at = before;
        engine.wait();
        assert!(engine.resumed_at >= before + PAUSE);
        assert!(engine.resumed_at <= engine.clock.now());
    }
    let before = engine.clock.now();
    engine.resumed_at = 0;
    engine.wait();
    assert!(engine.resumed_at >= before, "the pause starts again");
}

#[test]
fn a_pass_with_little_to_do_sleeps_until_something_is_due() {
    let mut engine = engine(&["127.82.0.13"], 1.0, &[], patient());
    let before = engine.clock.now();
    engine.wait();
    assert!(engine.clock.now() >= before + LONGEST_WAIT);
    assert!(engine.resumed_at >= before + LONGEST_WAIT, "a pass begins");
}

/// The folder of a test's segments, removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Parts that write records to segments in a folder.
fn recorded(mut parts: Parts, name: &str, targets: &[std::net::SocketAddr]) -> (Parts, Folder) {
    let folder = std::env::temp_dir().join(format!("run-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let sinks = Sinks {
        json: false,
        segments: Some(Segments::open(&folder, false).unwrap()),
        sides: (),
    };
    parts.writer = Writer::start(list(targets), sinks).unwrap();
    (parts, Folder(folder))
}

#[test]
fn a_run_ends_when_every_target_has_its_record() {
    let server = Server::start("127.82.1.14");
    let mut closed = server.address;
    closed.set_port(9);
    let forbidden = "10.0.0.1:443".parse().unwrap();
    let targets = [server.address, closed, forbidden, server.address];
    let settings = Settings {
        attempts: 2,
        ..hasty()
    };
    for rate in [500.0, FAST] {
        let parts = parts(&["127.82.0.14"], rate, &targets, settings.clone());
        let (parts, folder) = recorded(parts, "all", &targets);
        let result = Engine::new(parts).unwrap().run(&Signals::default());
        let counts = &result.counts;
        let found = [Outcome::Timeout, Outcome::Refused, Outcome::Blocked];
        let found = found.map(|outcome| counts.tally.of(outcome));
        assert_eq!(found.iter().sum::<u64>(), 4, "{counts:?}");
        assert_eq!(
            (found[2], counts.tally.sent, counts.tally.not_done),
            (1, 3, 0)
        );
        assert_eq!(counts.tally.check(), Ok(()));
        let (new, all) = result.highest;
        assert!(!result.interrupted && (1..=3).contains(&new) && all >= new);
        let last = result.written.unwrap();
        assert!(last >= 1);
        let segments = Segments::<Columns>::open(&folder.0, true).unwrap();
        assert_eq!(segments.last(), last);
        let answered = segments.answered::<Outcome>(&list(&targets)).unwrap();
        assert_eq!(answered.done, [true; 4]);
    }
}

#[test]
fn the_source_address_comes_from_the_routing_table_if_no_answer_told_it() {
    let targets = ["127.82.1.15:9".parse().unwrap()];
    let mut parts = parts(&["0.0.0.0"], FAST, &targets, hasty());
    parts.listed = true;
    let (parts, folder) = recorded(parts, "route", &targets);
    let result = Engine::new(parts).unwrap().run(&Signals::default());
    assert_eq!(result.written, Ok(1));
    let bytes = std::fs::read(folder.0.join("seg-000001.arrow")).unwrap();
    let text = b"127.0.0.1";
    assert!(bytes.windows(text.len()).any(|part| part == text));
}

#[test]
fn a_signal_ends_the_run_in_order_and_a_second_one_at_once() {
    let server = Server::start("127.82.1.16");
    let targets = [server.address; 3];
    for (name, signals_noted, settings, sent) in [
        ("one, nothing sent", 1, hasty(), 0),
        ("two, nothing sent", 2, hasty(), 0),
    ] {
        let signals = Signals::default();
        (0..signals_noted).for_each(|_| signals.note());
        let engine = engine(&["127.82.0.16"], FAST, &targets, settings);
        let result = engine.run(&signals);
        let tally = &result.counts.tally;
        assert_eq!((tally.sent, tally.not_done), (sent, 3 - sent), "{name}");
        assert!(result.interrupted, "{name}");
    }
}

#[test]
fn open_probes_end_as_usual_after_the_first_signal_alone() {
    for (noted, sent, not_done) in [(1, 1, 1), (2, 0, 2)] {
        let server = Server::start("127.82.1.17");
        let mut engine = engine(&["127.82.0.17"], FAST, &[server.address; 2], hasty());
        engine.await_rate(1);
        engine.send_new(1);
        let signals = Signals::default();
        (0..noted).for_each(|_| signals.note());
        let result = engine.run(&signals);
        let tally = &result.counts.tally;
        assert_eq!(
            (tally.sent, tally.not_done),
            (sent, not_done),
            "{noted} signals"
        );
        assert!(result.interrupted);
    }
}

#[test]
fn what_is_left_at_the_end_is_closed_skipped_or_not_done() {
    let mut server = Server::start("127.82.1.18");
    let mut parts = parts(&["127.82.0.18"], FAST, &[server.address; 4], patient());
    let (start, later) = (wall(), wall() + 1_000_000_000_000);
    let line = format!("slot 2147483648 {later} 0 1 0 127.82.1.18 4433\nend\n");
    parts.schedule = schedule(line, start);
    let mut engine = Engine::new(parts).unwrap();
    until("the feed", || {
        engine.schedule.read(engine.backlog.groups_mut());
        engine.schedule.next_at()
    });
    engine.open(0, server.address, 0);
    engine.answer(0, server.address, 0);
    engine.open(1, server.address, 0);
    let result = run::finish(engine, true);
    let (_, close) = server.receive(1).remove(0);
    assert_eq!((close.len(), result.counts.closes), (1200, 1));
    let tally = &result.counts.tally;
    assert_eq!((tally.of(Outcome::Coalesced), tally.sent), (1, 1));
    // The silent probe, and the four targets that stay in the backlog.
    assert_eq!((tally.not_done, tally.skipped), (5, 1));
    assert!(result.interrupted && result.written == Ok(0));
}

#[test]
fn a_run_whose_records_cannot_be_written_ends_at_once() {
    let server = Server::start("127.82.1.19");
    let forbidden = "10.0.0.1:443".parse().unwrap();
    let targets = [server.address, forbidden];
    let parts = parts(&["127.82.0.19"], FAST, &targets, patient());
    let (parts, folder) = recorded(parts, "gone", &targets);
    std::fs::remove_dir_all(&folder.0).unwrap();
    let result = Engine::new(parts).unwrap().run(&Signals::default());
    assert!(matches!(result.written, Err(Failure::Output(_))));
    assert!(!result.interrupted);
    assert_eq!(result.counts.tally.not_done, 1, "the silent target");
}

#[test]
fn a_run_whose_skipped_probes_cannot_be_written_ends_at_once() {
    let server = Server::start("127.82.1.20");
    let mut parts = parts(&["127.82.0.20"], FAST, &[server.address], patient());
    let line = "slot 2147483648 1 0 1 0 127.82.1.20 4433\nend\n";
    let feed = Feed::of(move || std::io::Cursor::new(line)).unwrap();
    let full = Skips::open(Some("/dev/full".as_ref())).unwrap();
    parts.schedule = Schedule::new(Some(feed), full, wall(), true);
    let result = Engine::new(parts).unwrap().run(&Signals::default());
    assert!(matches!(result.written, Err(Failure::Output(_))));
    assert!(!result.interrupted);
    let tally = &result.counts.tally;
    assert_eq!((tally.skipped, tally.not_done), (1, 1));
}

#[test]
fn what_limits_a_run_is_told() {
    let server = Server::start("127.82.1.22");
    let made = |targets: usize, listed, settings| {
        let mut parts = parts(
            &["127.82.0.22"],
            0.001,
            &vec![server.address; targets],
            settings,
        );
        parts.listed = listed;
        Engine::new(parts).unwrap()
    };
    let ended = made(0, true, patient());
    assert_eq!(ended.state().limit(), Limit::LastAnswers);
    let planned = made(0, false, patient());
    assert_eq!(planned.state().limit(), Limit::Planned);

    let mut engine = made(2, true, patient());
    assert_eq!(
        engine.state().limit(),
        Limit::Machine,
        "a probe may leave, and none has"
    );
    engine.await_rate(1);
    engine.send_new(1);
    assert_eq!(engine.state().limit(), Limit::Rate);
    engine.stop();
    assert_eq!(
        engine.state().limit(),
        Limit::LastAnswers,
        "those in flight"
    );

    // One probe per minute to an address.
    let targets = [server.address; 2];
    let mut parts = parts(&["127.82.0.22"], FAST, &targets, patient());
    let limits = RateLimits::new(1.0 / 60.0, 0.0, None, targets.len());
    parts.backlog = Backlog::new(parts.list.clone(), limits);
    let mut engine = Engine::new(parts).unwrap();
    engine.await_rate(2);
    engine.send_new(2);
    assert_eq!(engine.state().limit(), Limit::Networks);
}

#[test]
fn nothing_new_is_due_while_the_most_probes_are_in_flight() {
    let target = "127.82.1.77:9".parse().unwrap();
    let mut engine = engine(&["127.82.0.77"], FAST, &[target], patient());
    let now = engine.clock.now();
    assert!(engine.wake_up(now).next_new.is_some());
    for index in 0..engine.room() as u32 {
        engine.open(index, target, 0);
    }
    assert_eq!(engine.state().limit(), Limit::InFlight);
    assert_eq!(engine.wake_up(now).next_new, None);
}
