//! The completion of probes, and their deadlines.

use super::*;

#[test]
fn a_probe_ends_once_by_its_window_or_its_settle_time() {
    for (name, answered, first, second) in [
        (
            "settled before the window",
            20 * MS,
            20 * MS + SETTLE,
            WINDOW,
        ),
        (
            "the window before settled",
            WINDOW - MS,
            WINDOW,
            WINDOW + SETTLE,
        ),
    ] {
        let mut probes = probes();
        let handle = sent(&mut probes, 0);
        feed(&mut probes, server(), answer(1), answered);
        expire(&mut probes, first - 1);
        assert_eq!(probes.queue().pop(0), None, "{name}");
        expire(&mut probes, first);
        assert_eq!(probes.queue().pop(0), Some((handle, Kind::Close)), "{name}");
        expire(&mut probes, second);
        assert_eq!(probes.queue().pop(0), None, "{name}");
    }
}

#[test]
fn attempts_are_bounded_and_only_silence_leads_to_the_next() {
    for (name, attempts, acknowledged, outcome, tried) in [
        ("one attempt", 1, false, Outcome::Timeout, 1),
        ("two attempts", 2, false, Outcome::Timeout, 2),
        ("three attempts", 3, false, Outcome::Timeout, 3),
        ("no silence", 3, true, Outcome::AckOnly, 1),
    ] {
        let mut probes = probes();
        probes.settings.attempts = attempts;
        let handle = sent(&mut probes, 0);
        if acknowledged {
            feed(&mut probes, server(), ack(1), MS);
        }
        let mut now = 0;
        for _ in 1..tried {
            now += WINDOW;
            expire(&mut probes, now);
            assert_eq!(probes.queue().pop_next_attempt(), Some(handle), "{name}");
            let next = probes.next_attempt(handle, DCID);
            probes.sent(handle, Kind::NextAttempt, 0, next, now, stamp(now));
        }
        expire(&mut probes, now + WINDOW);
        assert_eq!(probes.queue().next_attempts(), 0, "{name}");
        probes.finish_all();
        assert_eq!(records(&mut probes), [(outcome, tried, 0)], "{name}");
    }
}

#[test]
fn connection_ids_of_all_attempts_leave_with_their_probe() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    expire(&mut probes, WINDOW);
    probes.queue().pop_next_attempt();
    let next = probes.next_attempt(handle, DCID);
    probes.sent(handle, Kind::NextAttempt, 0, next, WINDOW, stamp(WINDOW));
    probes.end(handle, WINDOW);
    probes.finish_all();
    let found = [1, 2].map(|attempt| probes.table.find_cid(cid(attempt)));
    assert_eq!((found, probes.len()), ([None; 2], 0));
}

#[test]
fn the_number_of_probes_in_flight_is_bounded() {
    let mut probes = probes();
    assert_eq!((probes.len(), probes.room()), (0, MOST_IN_FLIGHT));
    for line in 0..3 {
        probes.connect(TargetRef::Listed(line), (line, 0), server(), 0, DCID);
    }
    assert_eq!((probes.len(), probes.room()), (3, MOST_IN_FLIGHT - 3));
}

#[test]
fn what_falls_due_first_is_next() {
    let now = 7 * MS;
    let mut probes = probes();
    assert_eq!(probes.next_at(now), None);
    let handle = sent(&mut probes, 0);
    assert_eq!(probes.next_at(now), Some(WINDOW));
    feed(&mut probes, server(), answer(1), now);
    assert_eq!(probes.next_at(now), Some(now + SETTLE));
    probes.end(handle, now);
    assert_eq!(
        probes.next_at(now + MS),
        Some(now + MS),
        "a close is queued, and can be sent then"
    );
    probes.queue().pop(0);
    probes.deadlines.settles.pop(Mono::MAX);
    probes.deadlines.windows.pop(Mono::MAX);
    assert_eq!(probes.next_at(now), None);
    probes.sent(handle, Kind::Close, 0, None, now, stamp(now));
    assert_eq!(probes.next_at(now), Some(now + COOLDOWN));
}

#[test]
fn records_without_transmit_stamp_are_counted() {
    let mut probes = probes();
    for (line, stamped) in [(1, false), (2, true), (3, false)] {
        let handle = probes.connect(TargetRef::Listed(0), (line, 0), server(), 0, DCID);
        let key = probes.sent(handle, Kind::New, 0, None, 0, START).unwrap();
        if stamped {
            probes.stamped(key, START);
        }
        probes.end(handle, MS);
    }
    probes.finish_all();
    assert_eq!(probes.counts().missing_tx_stamps, 2);
    assert_eq!(probes.finished().count(), 3);
    assert_eq!(probes.finished().count(), 0, "each is returned once");
}

#[test]
fn the_source_address_is_the_bound_one_or_the_one_that_answers_came_to() {
    for (port, local, expected) in [
        (0, None, Some("127.0.0.9")),
        (0, Some("127.0.0.5"), Some("127.0.0.9")),
        (1, Some("127.0.0.5"), Some("127.0.0.5")),
        (1, None, None),
    ] {
        let mut probes = probes();
        let handle = probes.connect(TargetRef::Listed(0), (LINE, 0), server(), port, DCID);
        let probe = probes.table.get(handle).unwrap();
        probe.local = local.map(|ip: &str| ip.parse().unwrap());
        probes.end(handle, MS);
        probes.finish_all();
        let sent = record(&mut probes).sent.unwrap();
        assert_eq!(sent.src_ip, expected.map(|ip| ip.parse().unwrap()));
        assert_eq!(sent.src_port, 61_000 + port);
    }
}

#[test]
fn stopping_abandons_what_waits_for_another_connection() {
    let mut probes = probes();
    for line in 1..=3 {
        let handle = probes.connect(TargetRef::Listed(0), (line, 0), server(), 0, DCID);
        probes.sent(handle, Kind::New, 0, None, 0, START);
    }
    expire(&mut probes, WINDOW);
    expire(&mut probes, WINDOW);
    assert_eq!(
        (
            probes.queue().next_attempts(),
            probes.counts().tally.not_done
        ),
        (3, 0)
    );
    probes.stop();
    expire(&mut probes, WINDOW);
    assert_eq!(
        (
            probes.queue().next_attempts(),
            probes.counts().tally.not_done
        ),
        (0, 3)
    );
    assert_eq!((probes.len(), records(&mut probes)), (0, vec![]));
}

#[test]
fn targets_without_a_datagram_are_records_at_once() {
    for (given, initial_size) in [("", None), ("1300", Some(1300))] {
        let mut probes = probes();
        if !given.is_empty() {
            let sizes = crate::sizes::parse(given).unwrap();
            let mut order = sizes.probes(5).unwrap();
            probes.settings.sizes = sizes.assign(&mut order, 5);
        }
        probes.unsent(
            TargetRef::Listed(4),
            Outcome::Blocked,
            "on a list".to_owned(),
        );
        let tally = &probes.counts().tally;
        assert_eq!((tally.of(Outcome::Blocked), tally.sent), (1, 0));
        let record = record(&mut probes);
        assert!(matches!(record.target, TargetRef::Listed(4)) && record.sent.is_none());
        assert_eq!(record.why.as_deref(), Some("on a list"));
        assert_eq!(record.initial_size, initial_size);
    }
}

#[test]
fn counters_can_be_added_to() {
    let mut probes = probes();
    probes.counts_mut().tally.targets += 3;
    assert_eq!(probes.counts().tally.targets, 3);
}
