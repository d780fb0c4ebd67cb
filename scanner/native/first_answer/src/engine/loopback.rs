//! Test support: an engine's parts, and a server on loopback that is built from parts of the core.
//!
//! Each test has separate addresses, so tests can run at the same time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firstflight_core::clock::{Clock, SECOND, wall};
use firstflight_core::egress::{Class, Egress, Ports};
use firstflight_core::feed::Schedule;
use firstflight_core::policy::{Namespace, Policy};
use firstflight_core::progress::Progress;
use firstflight_core::rate_limit::RateLimits;
use firstflight_core::receive::{Control, Event, Receiver};
use firstflight_core::records::{Sinks, Skips, Writer};
use firstflight_core::targets::{Backlog, Target, TargetList, TargetRef};
use firstflight_wire::tls::{number, write_server_hello};
use firstflight_wire::{
    ConnectionId, InitialSecret, Keys, LongHeader, Writer as Bytes, build_packet, parse_packet,
    write_ack, write_crypto,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::sender::Reports;
use super::{Engine, Parts};
use crate::counts::Counts;
use crate::exchange::VERSION;
use crate::finished::FinishedProbe;
use crate::pace::Pace;
use crate::packets::Packets;
use crate::probes::{Handle, Kind, PER_PROBE, Probes, Settings};
use crate::sizes::InitialSizes;
use firstflight_core::cid::CidKey;

/// A rate that allows many probes at the same time.
pub const FAST: f64 = 1e6;
/// Destination connection ID of probes that are added without the network.
pub const DCID: [u8; 8] = [0xd; 8];
/// Maximum time that a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// Calls `look` until it returns something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn policy() -> Policy {
    let allow = ["127.0.0.0/8", "::1/128"].map(str::to_owned);
    Policy::new(&allow, &[], &[], Namespace::here(&[]).unwrap()).unwrap()
}

/// Binds ports of `sources`, for their address families.
pub fn ports(sources: &[&str], range: Option<(u16, u16)>) -> Ports {
    let sources: Vec<std::net::IpAddr> = sources.iter().map(|ip| ip.parse().unwrap()).collect();
    let need = [true, false].map(|v4| sources.iter().any(|ip| ip.is_ipv4() == v4));
    Ports::bind(&sources, range, need, 7).unwrap()
}

/// A server that sends only on request.
pub struct Server {
    receiver: Receiver,
    egress: Egress<()>,
    clock: Clock,
    pub address: SocketAddr,
}

impl Server {
    /// Listens on port 4433 of `ip`.
    pub fn start(ip: &str) -> Server {
        Server::at(ip, 4433)
    }

    /// Listens on `port` of `ip`.
    pub fn at(ip: &str, port: u16) -> Server {
        let (clock, ports) = (Clock::start(), ports(&[ip], Some((port, port + 1))));
        Server {
            receiver: Receiver::new(&ports, clock).unwrap(),
            address: ports.locals()[0],
            egress: Egress::new(policy(), ports, (FAST, PER_PROBE), clock),
            clock,
        }
    }

    /// Returns the next `count` datagrams: sender and bytes.
    pub fn receive(&mut self, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut got = Vec::new();
        until("datagrams for the server", || {
            self.receiver.read_all(|_, event| {
                if let Event::Datagram { peer, bytes, .. } = event {
                    got.push((peer, bytes.to_vec()));
                }
            });
            (got.len() >= count).then_some(())
        });
        assert_eq!(got.len(), count);
        got
    }

    /// Sends a datagram.
    pub fn send(&mut self, to: SocketAddr, bytes: &[u8]) {
        assert!(self.egress.allow_other(self.clock.now()) > 0);
        let write = |out: &mut [u8]| {
            out[..bytes.len()].copy_from_slice(bytes);
            Ok::<usize, ()>(bytes.len())
        };
        self.egress
            .push(to, "", Class::Other, false, write)
            .unwrap();
        assert_eq!(self.egress.send(0, 0).unwrap(), 1);
        self.egress.clear();
    }
}

/// Returns the server's answer to an Initial: an Initial with an ACK and a ServerHello.
pub fn answer(initial: &[u8]) -> Vec<u8> {
    let packet = parse_packet(initial, 0, 8).unwrap();
    answer_to(packet.dcid, packet.scid)
}

/// Returns the answer to an Initial from `client` to `dcid`.
pub fn answer_to(dcid: ConnectionId, client: ConnectionId) -> Vec<u8> {
    let keys = Keys::new(&InitialSecret::new(VERSION, &dcid).unwrap().server());
    let header = LongHeader::initial(VERSION, client, ConnectionId::new(&[5; 5]).unwrap(), 0);
    let mut hello = [0; 200];
    let mut w = Bytes::new(&mut hello);
    let suite = number::TLS_AES_128_GCM_SHA256;
    write_server_hello(&mut w, &[7; 32], &[], suite, number::X25519, &[8; 32]).unwrap();
    let mut out = [0; 1500];
    let n = build_packet(&mut out, &header, &keys, None, |packet| {
        write_ack(packet, 0, 25, &[(0, 0)])?;
        write_crypto(packet, 0, w.written())
    });
    out[..n.unwrap()].to_vec()
}

/// Settings with a single attempt of an hour: no deadline expires.
pub fn patient() -> Settings {
    Settings {
        window: 3600 * SECOND,
        settle: 3600 * SECOND,
        cooldown: 3600 * SECOND,
        attempts: 1,
        sizes: InitialSizes::default(),
        listen: None,
        reserved: false,
        ecn: None,
    }
}

/// Returns a list of `targets`.
pub fn list(targets: &[SocketAddr]) -> Arc<TargetList> {
    let mut list = TargetList::default();
    for (line, to) in (2..).zip(targets) {
        let target = Target {
            line,
            ip_text: &to.ip().to_string(),
            domain: "a.test",
            port: to.port(),
            group: 0,
            asn: 0,
        };
        list.push(&target).unwrap();
    }
    Arc::new(list)
}

/// Returns the key of connection IDs.
pub fn cids() -> CidKey {
    CidKey::new(&[1; 16])
}

/// Returns the parts of an engine that probes `targets` from `sources` and writes no records.
pub fn parts(sources: &[&str], rate: f64, targets: &[SocketAddr], settings: Settings) -> Parts {
    let (clock, ports, list) = (Clock::start(), ports(sources, None), list(targets));
    let sinks = Sinks {
        json: false,
        segments: None,
        sides: (),
    };
    let mut counts = Counts::default();
    counts.tally.targets = targets.len() as u64;
    Parts {
        clock,
        listed: true,
        backlog: Backlog::new(list.clone(), RateLimits::new(0.0, 0.0, None, targets.len())),
        schedule: Schedule::new(None, Skips::open(None).unwrap(), wall(), true),
        packets: Packets::new("research@example.org", [3; 32]).unwrap(),
        probes: Probes::new(settings, cids(), ports.locals(), [9; 3], counts),
        egress: Egress::new(policy(), ports, (rate, PER_PROBE), clock)
            .in_batches((rate, PER_PROBE), Pace::new(rate).batch),
        pace: Pace::new(rate),
        random: ChaCha8Rng::from_seed([5; 32]),
        writer: Writer::start(list.clone(), sinks).unwrap(),
        progress: Progress::new("probe", None, None),
        list,
    }
}

/// Creates an engine from [`parts`].
pub fn engine(sources: &[&str], rate: f64, targets: &[SocketAddr], settings: Settings) -> Engine {
    Engine::new(parts(sources, rate, targets, settings)).unwrap()
}

impl Engine {
    /// Waits until the rate allows `count` new probes.
    pub fn await_rate(&mut self, count: u64) {
        until("the rate", || {
            let now = self.clock.now();
            (self.sender.egress_mut().allow_new(now) >= count).then_some(())
        });
    }

    /// Sends new probes once, at most `room`.
    pub fn send_new(&mut self, room: usize) {
        let mut to = Reports {
            probes: &mut self.probes,
            receiver: &mut self.receiver,
        };
        self.sender.send_new(&mut self.backlog, room, &mut to);
    }

    /// Sends tokens and closes once.
    pub fn send_queued(&mut self, at_once: bool) {
        let mut to = Reports {
            probes: &mut self.probes,
            receiver: &mut self.receiver,
        };
        self.sender.send_queued(&mut to, at_once);
    }

    /// Sends the server's answer until a probe is answered, and completes the probe. Sends the answer again if it got
    /// no receive stamp: the kernel may stop stamping for a moment when another program closes its last socket.
    pub fn receive_answer(&mut self, server: &mut Server, to: SocketAddr, bytes: &[u8]) {
        let mut missing = None;
        until("an answer for the engine", || {
            let now = self.probes.counts().missing_rx_stamps;
            if missing.replace(now) != Some(now) {
                server.send(to, bytes);
            }
            self.receive();
            self.probes.end_answered(0);
            (!self.probes.queue().is_empty()).then_some(())
        });
    }

    /// Adds an open probe of target number `index`, from number `port`, as if its Initial was sent.
    pub fn open(&mut self, index: u32, to: SocketAddr, port: u16) -> Handle {
        let (target, line) = (TargetRef::Listed(index), index + 2);
        let handle = self.probes.connect(target, (line, 0), to, port, DCID);
        self.probes
            .sent(handle, Kind::New, port, None, self.clock.now(), wall());
        handle
    }

    /// Passes the answer to such a probe, without the network.
    pub fn answer(&mut self, index: u32, to: SocketAddr, port: u16) {
        let cid = cids().of(index + 2, 1);
        self.feed(to, port, &mut answer_to(DCID.into(), cid.into()));
    }

    /// Passes a datagram from `to` to number `port`, without the network.
    pub fn feed(&mut self, to: SocketAddr, port: u16, bytes: &mut [u8]) {
        let control = Control {
            stamp: Some(wall()),
            ..Control::default()
        };
        let (now, groups) = (self.clock.now(), self.backlog.groups());
        self.probes
            .datagram(usize::from(port), to, &control, bytes, now, wall, groups);
    }

    /// Completes all probes that have an answer, and returns all records.
    pub fn records(&mut self) -> Vec<FinishedProbe> {
        self.probes.end_answered(0);
        self.probes.finish_all();
        self.probes.finished().collect()
    }
}
