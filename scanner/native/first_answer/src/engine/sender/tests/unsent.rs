//! Datagrams that are forbidden, no longer needed, or refused by the system.

use super::*;

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
