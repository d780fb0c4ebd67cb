//! Datagrams and ICMP messages: their probes, and their effects.

use super::*;

/// The start of our Initial up to the end of our connection ID, as in an ICMP quote.
fn quote() -> Vec<u8> {
    let mut quote = vec![0xc0, 0, 0, 0, 1, 8];
    quote.extend(DCID);
    quote.push(8);
    quote.extend(cid(1));
    quote
}

fn icmp(kind: u8, code: u8, offender: &str) -> Icmp {
    Icmp {
        kind,
        code,
        v6: false,
        offender: offender.parse().ok(),
    }
}

/// Returns the present outcome and remark of the probe.
fn state(probes: &mut Probes, handle: Handle) -> (Outcome, Option<String>) {
    let exchange = &probes.table.get(handle).unwrap().exchange;
    let detail = exchange.rare.as_ref().and_then(|rare| rare.detail.clone());
    (exchange.outcome(), detail)
}

#[test]
fn a_short_quote_is_attributed_by_its_ports_and_a_longer_one_is_not() {
    for (length, outcome, unmatched) in [
        (0, Outcome::Refused, 0),
        (8, Outcome::Refused, 0),
        (22, Outcome::Refused, 0),
        (23, Outcome::Timeout, 1),
        (100, Outcome::Timeout, 1),
    ] {
        let mut probes = probes();
        let handle = sent(&mut probes, 0);
        let icmp = icmp(3, 3, "127.0.0.1");
        probes.icmp(0, server(), &icmp, &vec![0; length], MS);
        assert_eq!(state(&mut probes, handle).0, outcome, "{length} bytes");
        assert_eq!(probes.counts().unmatched_icmp, unmatched, "{length} bytes");
    }
}

#[test]
fn an_unproven_message_is_noted_with_its_sender() {
    for (offender, remark) in [
        (
            "10.0.0.1",
            "port unreachable from 10.0.0.1: the sender is not the server, and the message quotes no connection ID",
        ),
        (
            "",
            "port unreachable from an unknown address: the sender is not the server, and the message quotes no connection ID",
        ),
    ] {
        let mut probes = probes();
        let handle = sent(&mut probes, 0);
        for _ in 0..2 {
            probes.icmp(0, server(), &icmp(3, 3, offender), &[], MS);
        }
        assert_eq!(probes.counts().unproven_icmp, 2);
        let expected = (Outcome::Timeout, Some(remark.to_owned()));
        assert_eq!(state(&mut probes, handle), expected);
        let icmp = probes
            .table
            .get(handle)
            .unwrap()
            .exchange
            .rare
            .as_ref()
            .unwrap()
            .icmp;
        assert_eq!(icmp, Some((3, 3)));
    }
}

#[test]
fn other_icmp_is_kept_without_a_remark() {
    for (name, quote) in [("short quote", vec![]), ("whole quote", quote())] {
        let mut probes = probes();
        let handle = sent(&mut probes, 0);
        probes.icmp(0, server(), &icmp(11, 0, "10.0.0.1"), &quote, MS);
        assert_eq!(
            state(&mut probes, handle),
            (Outcome::Timeout, None),
            "{name}"
        );
        assert_eq!(probes.counts().unproven_icmp, 0, "{name}");
        let rare = probes.table.get(handle).unwrap().exchange.rare.as_ref();
        assert_eq!(rare.unwrap().icmp, Some((11, 0)), "{name}");
    }
}

#[test]
fn icmp_after_the_end_changes_nothing() {
    let mut probes = probes();
    let handle = connect(&mut probes, planned(), 0);
    probes.sent(handle, Kind::New, 0, None, 0, START);
    expire(&mut probes, WINDOW);
    assert_eq!(probes.table.get(handle).unwrap().phase, Phase::Cooldown);
    probes.icmp(0, server(), &icmp(3, 3, "127.0.0.1"), &quote(), WINDOW + MS);
    assert_eq!(state(&mut probes, handle), (Outcome::Timeout, None));
    expire(&mut probes, WINDOW + COOLDOWN);
    assert_eq!(records(&mut probes), [(Outcome::Timeout, 1, 0)]);
}

#[test]
fn messages_that_belong_to_nobody_are_counted() {
    let mut probes = probes();
    sent(&mut probes, 0);
    let mut unknown = quote();
    unknown[15..].fill(0xee);
    let elsewhere: SocketAddr = "127.0.0.2:443".parse().unwrap();
    for (to, quote) in [
        (server(), &unknown),
        (elsewhere, &quote()),
        (elsewhere, &vec![]),
    ] {
        probes.icmp(0, to, &icmp(3, 3, "127.0.0.1"), quote, MS);
    }
    assert_eq!(probes.counts().unmatched_icmp, 3);
    (0..2).for_each(|_| feed(&mut probes, elsewhere, answer(1), MS));
    assert_eq!(probes.counts().unmatched, 2);
    let groups = Groups::default();
    for _ in 0..2 {
        let (control, mut bytes) = (Control::default(), answer(1));
        probes.datagram(0, server(), &control, &mut bytes, MS, || START, &groups);
    }
    assert_eq!(probes.counts().missing_rx_stamps, 2);
}

#[test]
fn a_datagram_while_another_connection_waits_is_late() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    expire(&mut probes, WINDOW);
    assert_eq!(probes.table.get(handle).unwrap().phase, Phase::Queued);
    feed(&mut probes, server(), answer(1), WINDOW + MS);
    let probe = probes.table.get(handle).unwrap();
    assert_eq!(
        (probe.after_close, probe.exchange.datagrams, probe.ttl),
        (1, 0, None)
    );
}

#[test]
fn a_datagram_after_the_window_of_the_last_attempt_ends_the_probe_and_is_late() {
    let mut probes = probes();
    let handle = connect(&mut probes, planned(), 0);
    let key = probes.sent(handle, Kind::New, 0, None, 0, START).unwrap();
    probes.stamped(key, START);
    feed(&mut probes, server(), answer(1), WINDOW + 1);
    assert_eq!(probes.table.get(handle).unwrap().phase, Phase::Cooldown);
    expire(&mut probes, WINDOW + 1 + COOLDOWN);
    assert_eq!(records(&mut probes), [(Outcome::Timeout, 1, 1)]);
}

#[test]
fn a_datagram_after_the_settle_time_is_late() {
    for (later, late) in [(SETTLE, 0), (SETTLE + 1, 1)] {
        let mut probes = probes();
        let handle = sent(&mut probes, 0);
        feed(&mut probes, server(), answer(1), 20 * MS);
        feed(&mut probes, server(), ack(1), 20 * MS + later);
        let probe = probes.table.get(handle).unwrap();
        assert_eq!(
            (probe.after_close, probe.phase == Phase::Cooldown),
            (late, late == 1)
        );
        assert_eq!(probe.exchange.datagrams, 2 - late);
    }
}

#[test]
fn the_settle_time_begins_with_the_server_hello_and_not_before() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    feed(&mut probes, server(), ack(1), 20 * MS);
    feed(&mut probes, server(), answer(1), 70 * MS);
    expire(&mut probes, 70 * MS + SETTLE - 1);
    assert_eq!(probes.queue().pop(0), None);
    expire(&mut probes, 70 * MS + SETTLE);
    assert_eq!(probes.queue().pop(0), Some((handle, Kind::Close)));
}

#[test]
fn the_settle_time_counts_from_the_stamp_if_both_clocks_agree() {
    let now = 500 * MS;
    for (name, wall_behind_stamp, settled) in [
        ("read at once", 0, now + SETTLE),
        ("read 30 ms later", 30 * MS as Stamp, now + SETTLE - 30 * MS),
        ("read much later", 2 * SETTLE as Stamp, now),
        ("clock set back", -(SECOND as Stamp), now + SETTLE),
    ] {
        let mut probes = probes();
        sent(&mut probes, 0);
        let control = Control {
            stamp: Some(stamp(now)),
            ..Control::default()
        };
        let wall = || stamp(now) + wall_behind_stamp;
        let groups = Groups::default();
        probes.datagram(0, server(), &control, &mut answer(1), now, wall, &groups);
        assert_eq!(probes.deadlines.settles.next(), Some(settled), "{name}");
    }
}

#[test]
fn ttl_and_local_address_are_those_of_the_first_datagram() {
    let mut probes = probes();
    let handle = probes.connect(TargetRef::Listed(0), (LINE, 0), server(), 1, DCID);
    let key = probes.sent(handle, Kind::New, 1, None, 0, START).unwrap();
    probes.stamped(key, START);
    let groups = Groups::default();
    for (ttl, local) in [
        (None, "127.0.0.5"),
        (Some(60), "127.0.0.6"),
        (Some(61), "127.0.0.7"),
    ] {
        let control = Control {
            stamp: Some(stamp(MS)),
            ttl,
            local: local.parse().ok(),
            ecn: None,
            error: None,
        };
        probes.datagram(
            1,
            server(),
            &control,
            &mut ack(1),
            MS,
            || stamp(MS),
            &groups,
        );
    }
    probes.end(handle, MS);
    probes.finish_all();
    let sent = record(&mut probes).sent.unwrap();
    assert_eq!(
        (sent.ttl, sent.src_ip),
        (Some(60), "127.0.0.5".parse().ok())
    );
}

#[test]
fn a_retry_asks_for_the_token_on_the_same_port() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    let mut out = [0; 200];
    let (ours, theirs) = (cid(1).into(), ConnectionId::new(&[7; 6]).unwrap());
    let n =
        firstflight_wire::write_retry(&mut out, VERSION, &DCID.into(), &ours, &theirs, b"token", 0);
    feed(&mut probes, server(), out[..n.unwrap()].to_vec(), 20 * MS);
    assert_eq!(probes.queue().pop(1), None);
    assert_eq!(probes.queue().pop(0), Some((handle, Kind::Token)));
    assert!(probes.sending(handle, Kind::Token).is_some());
}

#[test]
fn a_close_of_the_server_ends_the_probe_at_once() {
    let mut probes = probes();
    let handle = sent(&mut probes, 0);
    let close = initial(1, 0, |w| {
        firstflight_wire::write_connection_close(w, 1, 0, b"")
    });
    feed(&mut probes, server(), close, 20 * MS);
    assert_eq!(probes.queue().pop(0), Some((handle, Kind::Close)));
    probes.finish_all();
    assert_eq!(records(&mut probes), [(Outcome::Closed, 1, 0)]);
}
