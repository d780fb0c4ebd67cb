//! Further connections of probes without an answer.

use super::*;
use crate::probes::Settings;

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
