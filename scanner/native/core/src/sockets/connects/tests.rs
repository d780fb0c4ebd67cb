use std::net::{Ipv4Addr, TcpListener};

use super::*;
use crate::clock::SECOND;
use crate::limits::policy::Namespace;

fn connects(rate: f64, most: usize) -> Connects {
    let here = Namespace::here(&[]).unwrap();
    let list = [("list".to_owned(), "127.0.0.9\n".to_owned())];
    let policy = Policy::new(&["127.0.0.0/8".to_owned()], &list, &[], here).unwrap();
    Connects::new(policy, Origin::default(), (rate, most), Clock::start()).unwrap()
}

fn begin(connects: &mut Connects, to: SocketAddr) -> u32 {
    while connects.allow_new(connects.clock.now()) == 0 {}
    connects.begin(to, "", Ecn::Asked).unwrap().0
}

/// Waits for the next verdict. Returns the number of the connection and the verdict.
fn next_end(connects: &mut Connects) -> (u32, Verdict) {
    let mut found = None;
    while found.is_none() {
        connects.wait(SECOND);
        connects.read(|number, ended| found = Some((number, ended)));
    }
    found.unwrap()
}

#[test]
fn what_listens_answers_and_what_does_not_refuses() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let mut connects = connects(1000.0, 4);
    let number = begin(&mut connects, to);
    let (same, Verdict::Open(agreed)) = next_end(&mut connects) else {
        panic!("a listener does not refuse");
    };
    assert_eq!((same, agreed.syn_retransmissions), (number, 0));
    assert!(agreed.mss.is_none_or(|mss| mss > 536) && agreed.rtt_us.is_some());
    drop(listener);
    begin(&mut connects, to);
    let (_, Verdict::Failed(error)) = next_end(&mut connects) else {
        panic!("nothing listens");
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(connects.room(), 4);
}

#[test]
fn an_open_connection_is_reset() {
    use std::io::Read;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut connects = connects(1000.0, 1);
    begin(&mut connects, listener.local_addr().unwrap());
    let mut accepted = listener.accept().unwrap().0;
    next_end(&mut connects);
    let error = accepted.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn sources_take_turns_and_ports_are_those_of_the_range() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let mut connects = connects(1000.0, 4);
    connects.from = Origin {
        sources: ["127.0.0.2", "::1", "127.0.0.3"]
            .map(|ip| ip.parse().unwrap())
            .into(),
        ports: Some((61_000, 61_001)),
    };
    let mut locals = Vec::new();
    for _ in 0..4 {
        while connects.allow_new(connects.clock.now()) == 0 {}
        let local = connects.begin(to, "", Ecn::Asked).unwrap().1.unwrap();
        locals.push(local.to_string());
    }
    let expected = [
        "127.0.0.2:61000",
        "127.0.0.3:61000",
        "127.0.0.2:61001",
        "127.0.0.3:61001",
    ];
    assert_eq!(locals, expected);
}

#[test]
fn a_port_that_another_program_has_is_passed_over() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
    let first = taken.local_addr().unwrap().port();
    // A busy machine can wait 1 ms, not 100 ms, between two calls.
    let mut connects = connects(10.0, 4);
    for (sources, passes) in [
        (["127.0.0.2", "127.0.0.3"], true),
        (["192.0.2.1"; 2], false),
    ] {
        connects.from = Origin {
            sources: sources.map(|ip| ip.parse().unwrap()).into(),
            ports: Some((first, first)),
        };
        connects.turn = 0;
        while connects.allow_new(connects.clock.now()) == 0 {}
        let begun = connects.begin(to, "", Ecn::Asked);
        let local = begun
            .ok()
            .and_then(|(_, local)| local)
            .map(|local| local.ip());
        assert_eq!(local, passes.then_some(Ipv4Addr::new(127, 0, 0, 3).into()));
        // Both outcomes take a share of the rate.
        assert!(matches!(
            connects.begin(to, "", Ecn::Asked),
            Err(NotBegun::OverRate)
        ));
    }
}

#[test]
fn lists_the_rate_and_the_room_are_kept() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let mut connects = connects(1.0, 1);
    assert!(matches!(
        connects.begin(to, "", Ecn::Asked),
        Err(NotBegun::OverRate)
    ));
    assert_eq!(connects.allow_new(connects.clock.now()), 1);
    let listed = SocketAddr::new([127, 0, 0, 9].into(), to.port());
    assert!(matches!(
        connects.begin(listed, "", Ecn::Asked),
        Err(NotBegun::Refused(Refusal::BlockList))
    ));
    let (number, local) = connects.begin(to, "", Ecn::Asked).unwrap();
    assert_eq!(local.unwrap().ip(), Ipv4Addr::LOCALHOST);
    assert!(matches!(
        connects.begin(to, "", Ecn::Asked),
        Err(NotBegun::OverRate)
    ));
    assert_eq!((connects.room(), connects.highest().0), (0, 1));
    connects.close(number);
    connects.close(number);
    assert_eq!(connects.room(), 1);
    let mut any = false;
    connects.read(|_, _| any = true);
    assert!(!any, "a connection that was closed has no end");
}

/// Waits until all connections have ended, independently of their own epoll set.
fn await_ends(connects: &Connects) {
    for open in connects.open.iter().flatten() {
        let epoll = Epoll::new().unwrap();
        epoll.add(0, open, EventFlags::OUT).unwrap();
        assert_eq!(epoll.wait::<1>(120 * SECOND).count(), 1);
    }
}

#[test]
fn an_end_since_the_last_wait_is_read_with_those_before() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut connects = connects(1e6, 2);
    for _ in 0..2 {
        begin(&mut connects, listener.local_addr().unwrap());
        await_ends(&connects);
        if connects.reported.is_empty() {
            connects.wait(SECOND);
        }
    }
    let (before, clock) = (connects.clock.now(), connects.clock);
    let mut reading = Vec::new();
    let drained = connects.read(|_, _| reading.push(clock.now()));
    assert_eq!(reading.len(), 2);
    assert!((before..=reading[0]).contains(&drained));
}

#[test]
fn not_all_ends_are_read_while_there_are_more_than_a_wait_reports() {
    // A listener accepts 128 connections without its program.
    let listeners: Vec<TcpListener> = (0..3)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
        .collect();
    let mut connects = connects(1e6, 300);
    for number in 0..300 {
        begin(&mut connects, listeners[number % 3].local_addr().unwrap());
    }
    await_ends(&connects);
    let mut passes = Vec::new();
    for _ in 0..2 {
        let mut count = 0;
        let drained = connects.read(|_, _| count += 1);
        passes.push((count, drained > 0));
    }
    assert_eq!(passes, [(256, false), (44, true)]);
}
