//! Passes of the loop with self-connections: a SYN that returns to its sending socket opens the connection
//! (RFC 9293 3.5, simultaneous open), so no listener is needed.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use firstflight_core::connects::Origin;
use firstflight_core::policy::{Namespace, Policy};
use firstflight_core::rate_limit::RateLimits;
use firstflight_core::records::Sinks;
use firstflight_core::targets::Target;

use super::*;
use crate::offered::Offered;

const TIMEOUT: Mono = SECOND / 100;

/// Returns an engine that will connect `count` addresses, each to itself.
fn engine(port: u16, count: u16) -> Engine {
    engine_with(&[], port, count)
}

/// Like `engine`, with opt-out lists.
fn engine_with(optouts: &[PathBuf], port: u16, count: u16) -> Engine {
    let ips: Vec<IpAddr> = (0..count)
        .map(|number| Ipv4Addr::from(0x7f54_0001 + u32::from(number)).into())
        .collect();
    let mut list = TargetList::default();
    for (line, ip) in (2..).zip(&ips) {
        let target = Target {
            line,
            ip_text: &ip.to_string(),
            domain: "a.test",
            port,
            group: 0,
            asn: 0,
        };
        list.push(&target).unwrap();
    }
    let (clock, list) = (Clock::start(), Arc::new(list));
    let allow = ["127.0.0.0/8".to_owned()];
    let policy = Policy::read(&allow, &[], optouts, Namespace::here(&[]).unwrap()).unwrap();
    let origin = Origin {
        sources: ips,
        ports: Some((port, port)),
    };
    let sinks = Sinks {
        json: false,
        segments: None,
        sides: (),
    };
    Engine::new(Parts {
        clock,
        backlog: Backlog::new(list.clone(), RateLimits::new(0.0, 0.0, None, list.len())),
        pauses: Pauses::new(None),
        connects: Connects::new(policy, origin, (1e6, usize::from(count)), clock).unwrap(),
        rules: Rules {
            offered: Offered::here(),
            attempts: 1,
        },
        timeout: TIMEOUT,
        writer: Writer::start(list.clone(), sinks).unwrap(),
        progress: Progress::new("tcp-options", None, None),
        counts: Counts::default(),
        list,
    })
}

/// Starts all connections, and waits until they are open and have timed out.
fn connect_all(engine: &mut Engine, port: u16) {
    while !engine.parts.backlog.is_empty() {
        engine.ask_new();
    }
    let begun = engine.parts.clock.now();
    while engine.parts.clock.now() <= begun + TIMEOUT || opened(port) < engine.in_flight {
        assert!(
            engine.parts.clock.now() < 120 * SECOND,
            "not open within 120 s"
        );
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Returns how many connections from this port are open (proc_net_tcp: local address, remote address, state).
fn opened(port: u16) -> usize {
    let sockets = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let is_open = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|word| word.ends_with(&local)) && words.nth(1) == Some("01")
    };
    sockets.lines().filter(is_open).count()
}

#[test]
fn what_opened_in_time_counts_however_many_passes_read_it() {
    let mut engine = engine(62_001, 300);
    connect_all(&mut engine, 62_001);
    let mut passes = 0;
    while engine.in_flight > 0 {
        engine.read_and_expire();
        passes += 1;
    }
    let tally = &engine.parts.counts.tally;
    assert_eq!((passes, tally.of(Outcome::Answered)), (2, 300));
}

#[test]
fn no_connection_ends_by_a_time_after_reading() {
    let mut engine = engine(62_002, 1);
    let drained = engine.read();
    connect_all(&mut engine, 62_002);
    engine.expire(drained);
    assert_eq!(engine.in_flight, 1);
    engine.read_and_expire();
    assert_eq!(engine.parts.counts.tally.of(Outcome::Answered), 1);
}

#[test]
fn what_opts_out_is_given_up_also_once_the_run_is_stopping() {
    let list = std::env::temp_dir().join(format!("tcp-options-{}", std::process::id()));
    std::fs::write(&list, "").unwrap();
    let mut engine = engine_with(std::slice::from_ref(&list), 62_003, 2);
    connect_all(&mut engine, 62_003);
    engine.stopping = true;
    std::fs::write(&list, "127.84.0.2\n").unwrap();
    while engine.in_flight == 2 {
        assert!(
            engine.parts.clock.now() < 120 * SECOND,
            "not given up within 120 s"
        );
        engine.give_up_refused();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::fs::remove_file(&list).unwrap();
    assert_eq!(engine.parts.counts.tally.of(Outcome::Timeout), 1);
    engine.read_and_expire();
    assert_eq!(engine.parts.counts.tally.of(Outcome::Answered), 1);
}
