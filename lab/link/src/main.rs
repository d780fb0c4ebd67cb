//! The lab's link emulator; see README.md in this crate.

mod bottleneck;
mod clock;
mod config;
mod drops;
mod ecn;
mod frame;
mod log;
mod queue;
mod socket;

use clock::now_ns;
use config::{Bottlenecks, Config, Mac};
use drops::Drops;
use ecn::Marks;
use log::{Fate, Log, Times};
use queue::Queue;
use socket::{Arrival, Receiver, Sender};
use std::collections::HashMap;
use std::error::Error;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The program spins for this long before a release, because it wakes up 5 to 20 us late from a sleep.
const SPIN_NS: u64 = 25_000;

/// Maximum number of releases between two reads of the ring, so that it does not fill up.
const BATCH: usize = 64;

const HELP: &str = "\
Delays, limits and drops what passes between the lab's hosts (lab/link/README.md).

Usage: firstflight-link --config FILE [--realtime]

Example: firstflight-link --config var/lab/link.json";

/// This end of a host's veth pair.
struct Port {
    interface: i32,
    mac: Mac,
    gateway: Mac,
}

struct Emulator {
    ports: Vec<Port>,
    port_of_interface: HashMap<i32, usize>,
    owners: HashMap<IpAddr, usize>,
    delays_ns: Vec<Vec<u64>>,
    bottlenecks: Bottlenecks,
    drops: Drops,
    marks: Marks,
    queue: Queue,
    log: Log,
}

impl Emulator {
    fn new(config: &Config) -> Result<Self, Box<dyn Error>> {
        let mut ports = Vec::with_capacity(config.hosts.len());
        for host in &config.hosts {
            let interface = socket::interface_index(&host.interface)
                .map_err(|error| format!("interface {}: {error}", host.interface))?;
            ports.push(Port {
                interface,
                mac: host.mac,
                gateway: host.gateway,
            });
        }
        let port_of_interface = ports
            .iter()
            .enumerate()
            .map(|(i, port)| (port.interface, i))
            .collect();
        Ok(Self {
            ports,
            port_of_interface,
            owners: config.owners()?,
            delays_ns: config.delays()?,
            bottlenecks: config.bottlenecks()?,
            drops: Drops::new(&config.drops),
            marks: Marks::new(&config.ecn),
            queue: Queue::default(),
            log: Log::create(&config.lateness)
                .map_err(|error| format!("{}: {error}", config.lateness.display()))?,
        })
    }

    /// Queues a frame: determines the output port and release time.
    fn arrive(&mut self, arrival: &Arrival<'_>) {
        let Some(&from) = self.port_of_interface.get(&arrival.interface) else {
            return;
        };
        let Some(packet) = frame::parse(arrival.frame) else {
            return;
        };
        let Some(&to) = self.owners.get(&packet.dst) else {
            return;
        };
        let (arrived_ns, delay_ns) = (arrival.at_ns, self.delays_ns[from][to]);
        let times = |wait_ns| Times {
            arrived_ns,
            release_ns: arrived_ns + wait_ns + delay_ns,
            wait_ns,
        };
        if self.drops.takes(&packet, arrived_ns) {
            self.log.add(times(0), &packet, Fate::Dropped);
            return;
        }
        let wait_ns = match self.bottlenecks.of_path[from][to] {
            None => Some(0),
            Some(line) => self.bottlenecks.lines[line].admit(arrived_ns, packet.ip_length),
        };
        match wait_ns {
            Some(wait_ns) => self.queue.push(times(wait_ns), to, packet, arrival.frame),
            None => self.log.add(times(0), &packet, Fate::QueueFull),
        }
    }

    /// Sends the next frame if it is due; returns whether it was.
    fn release(&mut self, sender: &Sender) -> bool {
        let Some(mut waiting) = self.queue.pop_due(now_ns()) else {
            return false;
        };
        let port = &self.ports[waiting.to];
        waiting.frame[..6].copy_from_slice(&port.mac);
        waiting.frame[6..12].copy_from_slice(&port.gateway);
        self.marks.change(&waiting.packet, &mut waiting.frame);
        let fate = match sender.send(port.interface, &waiting.frame) {
            Ok(()) => Fate::Sent {
                late_ns: now_ns().saturating_sub(waiting.times.release_ns),
            },
            Err(error) => {
                eprintln!(
                    "firstflight-link: a packet to {} was not sent: {error}",
                    waiting.packet.dst
                );
                Fate::Failed
            }
        };
        self.log.add(waiting.times, &waiting.packet, fate);
        self.queue.recycle(waiting);
        true
    }

    /// Returns how long to sleep (`None`: until a frame arrives).
    fn idle(&self, now_ns: u64) -> Option<Duration> {
        let release = self.queue.next_ns().map(|at| at.saturating_sub(SPIN_NS));
        let next = [release, self.log.due_ns()].into_iter().flatten().min()?;
        Some(Duration::from_nanos(next.saturating_sub(now_ns)))
    }
}

fn run(config: &Path, realtime: bool) -> Result<(), Box<dyn Error>> {
    let config = Config::read(config).map_err(|error| format!("{} {error}", config.display()))?;
    let mut emulator = Emulator::new(&config)?;
    let sender = Sender::open()?;
    let mut receiver = Receiver::open()?;
    clock::sharpen_timers();
    if realtime && !clock::run_first() {
        eprintln!(
            "firstflight-link: real-time priority is not allowed here; other work will make packets late"
        );
    }
    println!("READY");
    loop {
        let mut released = 0;
        while released < BATCH && emulator.release(&sender) {
            released += 1;
        }
        receiver.drain(|arrival| emulator.arrive(&arrival));
        let now = now_ns();
        if emulator.log.flush_if_due(now) {
            let lost = receiver.lost()?;
            if lost > 0 {
                eprintln!("firstflight-link: {lost} packets found the ring full and are lost");
            }
        }
        match emulator.idle(now) {
            Some(Duration::ZERO) => std::hint::spin_loop(),
            limit => receiver.wait(limit)?,
        }
    }
}

fn finish(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("firstflight-link: {error}");
            ExitCode::from(2)
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [option, file] if option == "--config" => finish(run(Path::new(file), false)),
        [option, file, flag] if option == "--config" && flag == "--realtime" => {
            finish(run(Path::new(file), true))
        }
        [option] if option == "--version" => {
            println!("firstflight-link {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        [option] if option == "--help" || option == "-h" => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "firstflight-link: expected --config FILE, optionally followed by --realtime; --help shows an example."
            );
            ExitCode::from(2)
        }
    }
}
