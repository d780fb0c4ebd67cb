//! Sent datagrams, failed datagrams, transmit stamps, and further connections.

use super::*;

/// Sends a second connection of a silent probe at `now`. Returns the stamp's key.
fn second(probes: &mut Probes, handle: Handle, now: Mono) -> StampKey {
    expire(probes, now);
    assert_eq!(probes.queue().pop_next_attempt(), Some(handle));
    let next = probes.next_attempt(handle, DCID);
    probes
        .sent(handle, Kind::NextAttempt, 1, next, now, stamp(now))
        .unwrap()
}

#[test]
fn each_kind_of_datagram_has_its_counter() {
    for (kind, expected) in [
        (Kind::New, (0, 0, 0)),
        (Kind::NextAttempt, (2, 0, 0)),
        (Kind::Token, (0, 2, 0)),
        (Kind::Close, (0, 0, 2)),
    ] {
        let mut probes = probes();
        let handle = connect(&mut probes, TargetRef::Listed(0), 0);
        (0..2).for_each(|_| _ = probes.sent(handle, kind, 0, None, 0, START));
        let counts = probes.counts();
        let found = (counts.retransmissions, counts.token_initials, counts.closes);
        assert_eq!(found, expected, "{kind:?}");
        assert_eq!(counts.failed_closes, 0);
    }
}

#[test]
fn a_probe_may_send_what_its_phase_allows() {
    let kinds = [Kind::New, Kind::NextAttempt, Kind::Token, Kind::Close];
    for (phase, expected) in [
        (Phase::Open, [true, false, true, false]),
        (Phase::Queued, [false, true, false, false]),
        (Phase::Cooldown, [false, false, false, true]),
    ] {
        let mut probes = probes();
        let handle = connect(&mut probes, TargetRef::Listed(0), 0);
        probes.table.get(handle).unwrap().phase = phase;
        let found = kinds.map(|kind| probes.sending(handle, kind).is_some());
        assert_eq!(found, expected, "{phase:?}");
    }
}

#[test]
fn a_stamp_of_an_earlier_attempt_changes_nothing() {
    let mut probes = probes();
    let handle = connect(&mut probes, TargetRef::Listed(0), 0);
    let first = probes.sent(handle, Kind::New, 0, None, 0, START).unwrap();
    let now = WINDOW + MS;
    let key = second(&mut probes, handle, now);
    probes.stamped(first, START + 5);
    let probe = probes.table.get(handle).unwrap();
    assert_eq!(
        (probe.first_sent, probe.sent_at, probe.sent()),
        (None, None, stamp(now))
    );
    probes.stamped(key, stamp(now) + 7);
    let probe = probes.table.get(handle).unwrap();
    let at = Some(stamp(now) + 7);
    assert_eq!((probe.first_sent, probe.sent_at), (at, at));
}

#[test]
fn a_further_connection_begins_anew() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    probes.table.get(handle).unwrap().token_sent = true;
    probes.end_by_window(handle, WINDOW, &Groups::default());
    second(&mut probes, handle, WINDOW);
    let probe = probes.table.get(handle).unwrap();
    assert_eq!(
        (probe.attempt, probe.port, probe.phase),
        (2, 1, Phase::Open)
    );
    assert_eq!(
        (probe.first_sent, probe.sent_at, probe.token_sent),
        (None, None, false)
    );
    assert_eq!(probe.exchange.client_cid, cid(2));
    let found = [1, 2].map(|attempt| probes.table.find_cid(cid(attempt)));
    assert_eq!(found, [Some(handle); 2], "answers to both are recognised");
    assert_eq!(probes.table.find_tuple(server(), 1, 0), Some(handle));
}

#[test]
fn icmp_of_the_connection_before_is_kept_and_nothing_else() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    let exchange = &mut probes.table.get(handle).unwrap().exchange;
    exchange.note(|| "a remark".to_owned());
    exchange.datagrams = 3;
    let next = probes.next_attempt(handle, [0xe; 8]).unwrap();
    assert!(
        next.rare.is_none(),
        "a remark that is not about ICMP is not kept"
    );
    probes.table.get(handle).unwrap().exchange.icmp(3, 1, false);
    let next = probes.next_attempt(handle, [0xe; 8]).unwrap();
    assert_eq!((next.client_cid, next.datagrams), (cid(2), 0));
    assert_eq!(next.dcid.as_slice(), [0xe; 8]);
    let rare = next.rare.as_deref().unwrap();
    assert_eq!(
        (rare.icmp, rare.detail.as_deref()),
        (Some((3, 1)), Some("a remark"))
    );
    assert_eq!(next.outcome(), Outcome::Timeout);
}

#[test]
fn a_new_probe_has_the_size_of_its_family() {
    for (to, size) in [("127.0.0.1:443", 1252), ("[::1]:443", 1232)] {
        let mut probes = probes();
        let to = to.parse().unwrap();
        let handle = probes.connect(TargetRef::Listed(0), (LINE, 64500), to, 1, DCID);
        let probe = probes.sending(handle, Kind::New).unwrap();
        assert_eq!((probe.initial_size, probe.to, probe.port), (size, to, 1));
        assert_eq!((probe.line, probe.group, probe.attempt), (LINE, 64500, 1));
        assert_eq!(probe.exchange.client_cid, cid(1));
        assert_eq!(probes.table.find_cid(cid(1)), Some(handle));
    }
}

#[test]
fn the_reason_why_a_datagram_could_not_be_sent_is_kept() {
    let why = || "no buffer space".to_owned();
    for kind in [Kind::NextAttempt, Kind::Token] {
        let mut probes = probes();
        let handle = sent(&mut probes, 0);
        probes.not_sent(handle, kind, Outcome::SendFailed, why(), MS);
        probes.finish_all();
        let rare = record(&mut probes).sent.unwrap().exchange.rare.unwrap();
        assert_eq!(rare.detail, Some(why()), "{kind:?}");
    }
    let mut probes = probes();
    let handle = connect(&mut probes, planned(), 0);
    probes.not_sent(handle, Kind::New, Outcome::Blocked, why(), MS);
    let record = record(&mut probes);
    assert_eq!(
        (record.outcome, record.why),
        (Outcome::Blocked, Some(why()))
    );
    assert!(record.sent.is_none() && matches!(record.target, TargetRef::Fed(_)));
    let tally = &probes.counts().tally;
    assert_eq!(
        (tally.of(Outcome::Blocked), tally.sent, probes.len()),
        (1, 0, 0)
    );
}

#[test]
fn closes_that_failed_are_counted_and_the_probe_still_counts_late_datagrams() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    feed(&mut probes, server(), answer(1), MS);
    probes.end(handle, 2 * MS);
    probes.queue().pop(0);
    for failed in 1..=2 {
        probes.not_sent(
            handle,
            Kind::Close,
            Outcome::SendFailed,
            String::new(),
            3 * MS,
        );
        assert_eq!(probes.counts().failed_closes, failed);
    }
    feed(&mut probes, server(), answer(1), 4 * MS);
    expire(&mut probes, 3 * MS + COOLDOWN - 1);
    assert_eq!(probes.len(), 1);
    expire(&mut probes, 3 * MS + COOLDOWN);
    assert_eq!(records(&mut probes), [(Outcome::Coalesced, 1, 1)]);
}

#[test]
fn a_family_without_addresses_is_named() {
    for (v4, text) in [
        (true, "this machine has no IPv4"),
        (false, "this machine has no IPv6"),
    ] {
        assert_eq!(no_family(v4), text);
    }
}

#[test]
fn a_target_is_known_by_its_line_and_group() {
    let target = firstflight_core::targets::Target {
        line: 12,
        ip_text: "192.0.2.7",
        domain: "",
        port: 443,
        group: 64500,
        asn: 3,
    };
    assert_eq!(line_and_group(&target), (12, 64500));
}
