//! One pass of the loop, against a server on loopback that is built from parts of the core.

use std::net::SocketAddr;
use std::time::Instant;

use firstflight_core::clock::SECOND;
use firstflight_core::connected::Server;
use firstflight_core::egress::{Class, Egress, Ports};
use firstflight_core::policy::{Namespace, Policy};
use firstflight_core::random;
use firstflight_core::receive::{Event as Received, Receiver};
use firstflight_core::records::Sinks;

use super::*;
use crate::input::answered::Answered;
use crate::questions::resolvers::{Named, Resolvers};
use crate::questions::table::Settings;
use crate::results::row::Context;
use crate::status::Status;
use crate::wire::name::Name;
use crate::wire::types::QType;

/// Timeout of an attempt.
const TIMEOUT: Mono = SECOND / 100;

/// Calls `look` until it returns something.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A server on an address, with port 0.
struct Answering {
    receiver: Receiver,
    egress: Egress<()>,
    clock: Clock,
    address: SocketAddr,
}

impl Answering {
    fn start(ip: &str) -> Answering {
        let (clock, source) = (Clock::start(), [ip.parse().unwrap()]);
        let ports = Ports::bind(&source, None, [true, false], 7).unwrap();
        let allow = ["127.0.0.0/8".to_owned()];
        let policy = Policy::new(&allow, &[], &[], Namespace::here(&[]).unwrap()).unwrap();
        Answering {
            receiver: Receiver::new(&ports, clock).unwrap(),
            address: ports.locals()[0],
            egress: Egress::new(policy, ports, (1e6, 1), clock),
            clock,
        }
    }

    /// Answers the next question with an address, and waits until the answer is in the receive buffer of the
    /// engine's socket.
    fn answer(&mut self) {
        let (to, question) = until("a question", || {
            let mut got = None;
            self.receiver.read_all(|_, event| {
                if let Received::Datagram { peer, bytes, .. } = event {
                    got = Some((peer, bytes.to_vec()));
                }
            });
            got
        });
        // The question without its EDNS record (11 bytes).
        let mut bytes = question[..question.len() - 11].to_vec();
        bytes[2..4].copy_from_slice(&[0x81, 0x80]);
        bytes[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
        bytes.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc6\x12\0\x01");
        assert!(self.egress.allow_other(self.clock.now()) > 0);
        let write = |out: &mut [u8]| {
            out[..bytes.len()].copy_from_slice(&bytes);
            Ok::<usize, ()>(bytes.len())
        };
        let pushed = self.egress.push(to, "", Class::Other, false, write);
        assert_eq!(pushed, Ok(()));
        assert_eq!(self.egress.send(0, 0).unwrap(), 1);
        self.egress.clear();
        until("the answer", || has_bytes(to.port()).then_some(()));
    }
}

/// Returns whether a UDP socket with this port has data to read (proc_net_udp: local address, remote address,
/// state, bytes to send and to read).
fn has_bytes(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let local = format!(":{port:04X}");
    sockets.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_local = words.next().is_some_and(|word| word.ends_with(&local));
        is_local
            && words
                .nth(2)
                .is_some_and(|word| !word.ends_with(":00000000"))
    })
}

/// Returns an engine for these servers, without names.
fn engine(servers: &[SocketAddr]) -> Engine {
    let clock = Clock::start();
    let listed: Vec<Server> = servers
        .iter()
        .map(|address| Server {
            address: *address,
            rate: None,
        })
        .collect();
    let named: Vec<Named> = servers
        .iter()
        .map(|address| Named {
            address: *address,
            weight: 1.0,
        })
        .collect();
    let policy = Policy::new(&[], &[], &[], Namespace::here(&[]).unwrap()).unwrap();
    let ips: Vec<_> = servers.iter().map(SocketAddr::ip).collect();
    let random = || random::seeded_by_system().unwrap();
    let settings = Settings {
        types: vec![QType::A],
        timeout: TIMEOUT,
        attempts: 1,
        concurrency: 9,
        mixed: false,
    };
    let written = Arc::new(AtomicU64::new(0));
    let context = Context {
        labels: servers.iter().map(ToString::to_string).collect(),
        written: written.clone(),
    };
    let sinks = Sinks {
        json: false,
        segments: None,
        sides: (),
    };
    Engine {
        names: Names::open("resolve", "/dev/null".as_ref(), Answered::default()).unwrap(),
        table: Table::new(settings, Resolvers::new(&named), random()),
        connected: Connected::new(policy.with_servers(&ips), &listed, random(), clock).unwrap(),
        writer: Writer::start(context, sinks).unwrap(),
        finished: 0,
        pushed: 0,
        written,
        checks: Checks::new(50, 1.0),
        progress: Progress::new("resolve", None, None),
        clock,
        server_count: servers.len(),
        rates: vec![None; servers.len()],
    }
}

#[test]
fn a_run_says_how_many_names_of_a_file_are_left() {
    let path = std::env::temp_dir().join(format!("left-{}", std::process::id()));
    std::fs::write(&path, "a.test\nb.test\nc.test\n").unwrap();
    let mut server = Answering::start("127.83.0.4");
    let mut engine = engine(&[server.address]);
    assert_eq!(engine.now().left, None, "no file");
    engine.names = Names::open("resolve", &path, Answered::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let now = engine.now();
    assert_eq!((now.done, now.left, now.in_flight), (0, Some(3), 0));
    let first = until("a name", || engine.names.next());
    let begin = engine.clock.now();
    engine
        .table
        .begin(first.line, first.domain, first.name, begin);
    let now = engine.now();
    assert_eq!((now.done, now.left, now.in_flight), (0, Some(2), 1));
    engine.send();
    server.answer();
    engine.receive();
    engine.write();
    let now = engine.now();
    assert_eq!((now.done, now.left, now.in_flight), (1, Some(2), 0));
}

#[test]
fn an_answer_that_came_in_time_counts_however_late_the_pass_begins() {
    let mut servers = ["127.83.0.1", "127.83.0.2"].map(Answering::start);
    let mut engine = engine(&servers.each_ref().map(|server| server.address));
    for resolver in [0, 1] {
        engine.table.begin_check(resolver, engine.clock.now());
    }
    engine.send();
    let sent = engine.clock.now();
    servers[0].answer();
    // Reports only the first answer.
    engine.connected.wait(SECOND);
    servers[1].answer();
    while engine.clock.now() <= sent + TIMEOUT {}
    engine.receive_and_expire();
    assert_eq!(engine.table.checks, [(0, None), (1, None)]);
}

#[test]
fn no_attempt_ends_by_a_time_after_reading() {
    let mut server = Answering::start("127.83.0.3");
    let mut engine = engine(&[server.address]);
    let (_, drained) = engine.receive();
    let name = Name::from_text("a.test").unwrap();
    engine
        .table
        .begin(2, "a.test".into(), name, engine.clock.now());
    engine.send();
    let sent = engine.clock.now();
    server.answer();
    while engine.clock.now() <= sent + TIMEOUT {}
    engine.table.expire(drained);
    assert!(engine.table.finished.is_empty());
    engine.receive_and_expire();
    assert_eq!(engine.table.finished[0].outcomes[0].status, Status::NoError);
}
