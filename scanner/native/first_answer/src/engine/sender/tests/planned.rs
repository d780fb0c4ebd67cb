//! Probes that a feed plans.

use firstflight_core::feed::Feed;
use firstflight_core::records::Skips;

use super::*;
use crate::engine::loopback::parts;

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
