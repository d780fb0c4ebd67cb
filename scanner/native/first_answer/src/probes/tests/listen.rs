//! Listening to servers before the close.

use super::*;

const LISTEN: Mono = 5 * SECOND;

fn listening() -> Probes {
    let mut probes = probes();
    probes.settings.listen = Some(LISTEN);
    probes.deadlines.listens = Timers::new(LISTEN);
    probes
}

/// The ServerHello again, in packet `number`.
fn again(number: u64) -> Vec<u8> {
    initial(1, number, |packet| write_crypto(packet, 0, &[2, 0, 0, 80]))
}

/// A probe that was answered at 20 ms and settled at `SETTLE` later.
fn settled(probes: &mut Probes) -> Handle {
    let handle = sent(probes, 0);
    feed(probes, server(), answer(1), 20 * MS);
    expire(probes, 20 * MS + SETTLE);
    handle
}

fn closes(probes: &mut Probes, now: Mono) -> usize {
    let mut count = 0;
    while let Some((handle, kind)) = probes.queue().pop(0) {
        assert_eq!(kind, Kind::Close);
        probes.sent(handle, kind, 0, None, now, stamp(now));
        count += 1;
    }
    count
}

#[test]
fn nothing_is_sent_until_the_time_is_over_and_then_the_close() {
    let mut probes = listening();
    settled(&mut probes);
    let begun = 20 * MS + SETTLE;
    feed(&mut probes, server(), again(2), 220 * MS);
    feed(&mut probes, server(), again(3), 620 * MS);
    expire(&mut probes, begun + LISTEN - 1);
    assert_eq!(closes(&mut probes, 0), 0);
    assert_eq!(probes.next_at(0), Some(begun + LISTEN));
    expire(&mut probes, begun + LISTEN);
    assert_eq!(closes(&mut probes, begun + LISTEN), 1);
    feed(&mut probes, server(), again(4), begun + LISTEN + MS);
    expire(&mut probes, begun + LISTEN + COOLDOWN);
    let probe = record(&mut probes);
    let sent = probe.sent.unwrap();
    assert_eq!(
        (probe.outcome, sent.listened),
        (Outcome::Coalesced, Some(LISTEN))
    );
    assert_eq!(sent.retransmission_us, [220_000, 620_000]);
    assert_eq!(sent.exchange.rare.unwrap().retransmissions, 2);
    assert_eq!((sent.exchange.datagrams, sent.after_close), (3, 1));
}

#[test]
fn an_answer_that_comes_late_in_the_settling_is_heard() {
    let mut probes = listening();
    sent(&mut probes, 0);
    feed(&mut probes, server(), answer(1), 20 * MS);
    // The loop has not completed the probe yet, but the datagram arrived after the end of the settle time.
    feed(&mut probes, server(), again(2), 20 * MS + SETTLE + MS);
    assert_eq!(closes(&mut probes, 0), 0);
    expire(&mut probes, 20 * MS + SETTLE + MS + LISTEN);
    assert_eq!(closes(&mut probes, 0), 1);
}

#[test]
fn a_stopped_run_ends_listening_and_says_how_long_it_was() {
    let mut probes = listening();
    settled(&mut probes);
    let stopped = 20 * MS + SETTLE + SECOND;
    probes.stop();
    expire(&mut probes, stopped);
    assert_eq!(closes(&mut probes, stopped), 1);
    expire(&mut probes, stopped + COOLDOWN);
    assert_eq!(record(&mut probes).sent.unwrap().listened, Some(SECOND));
    let mut probes = listening();
    settled(&mut probes);
    probes.stop();
    probes.end_answered(stopped);
    assert_eq!(closes(&mut probes, stopped), 1);
}

#[test]
fn silent_closed_and_planned_targets_are_not_listened_to() {
    let close = || {
        initial(1, 0, |packet| {
            firstflight_wire::write_connection_close(packet, 0x128, 6, b"")
        })
    };
    for (name, planned_one, datagram) in [
        ("silent", false, None),
        ("closed", false, Some(close())),
        ("planned", true, Some(answer(1))),
    ] {
        let mut probes = listening();
        probes.settings.attempts = 1;
        let target = if planned_one {
            planned()
        } else {
            TargetRef::Listed(0)
        };
        let handle = connect(&mut probes, target, 0);
        probes.sent(handle, Kind::New, 0, None, 0, stamp(0));
        if let Some(datagram) = datagram {
            feed(&mut probes, server(), datagram, 20 * MS);
        }
        let end = WINDOW + COOLDOWN;
        expire(&mut probes, WINDOW);
        closes(&mut probes, WINDOW);
        expire(&mut probes, end);
        assert_eq!(record(&mut probes).sent.unwrap().listened, None, "{name}");
    }
}

#[test]
fn a_server_that_floods_is_not_listened_to_any_longer() {
    let mut probes = listening();
    settled(&mut probes);
    for number in 2..2000 {
        feed(&mut probes, server(), again(number), 300 * MS);
    }
    assert_eq!(closes(&mut probes, 300 * MS), 1);
    expire(&mut probes, 300 * MS + COOLDOWN);
    let sent = record(&mut probes).sent.unwrap();
    assert_eq!(sent.exchange.datagrams, 1000);
    assert!(sent.after_close > 900 && sent.retransmission_us.len() == 32);
}

#[test]
fn the_probes_of_a_sweep_are_told_apart() {
    let mut probes = probes();
    let sizes = crate::sizes::parse("1200,1300").unwrap();
    let mut order = sizes.probes(1).unwrap();
    probes.settings.sizes = sizes.assign(&mut order, 1);
    let handles: Vec<_> = (0..2)
        .map(|place| connect(&mut probes, TargetRef::Listed(place), 0))
        .collect();
    for handle in &handles {
        probes.sent(*handle, Kind::New, 0, None, 0, stamp(0));
    }
    // The connection ID of the first probe. The second one has another.
    feed(&mut probes, server(), answer(1), 20 * MS);
    expire(&mut probes, 20 * MS + SETTLE);
    assert_eq!(probes.queue().pop(0), Some((handles[0], Kind::Close)));
    let next = probes.next_attempt(handles[1], DCID).unwrap();
    assert_eq!(next.client_cid, CidKey::new(&[1; 16]).of(LINE, 8 + 2));
    for (handle, size) in handles.iter().zip([1200, 1300]) {
        assert_eq!(probes.table.get(*handle).unwrap().initial_size, size);
    }
}
