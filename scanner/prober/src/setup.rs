//! From options to a run: read lists, check what is asked for, bind ports, start; then say what came of it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use firstflight_usage::stdout;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::cid::CidKey;
use crate::clock::{Clock, wall};
use crate::counts::Counts;
use crate::csv;
use crate::door::Door;
use crate::engine::{Engine, Parts, Settings};
use crate::error::Failure;
use crate::feed::Feed;
use crate::gate::Gate;
use crate::hold::Hold;
use crate::options::{Format, Options};
use crate::order::shuffle;
use crate::outcome::Outcome;
use crate::pace::{Mono, SECOND, batch};
use crate::packets::Packets;
use crate::ports::Ports;
use crate::progress::{Progress, outcomes};
use crate::segments::Segments;
use crate::skips::Skips;
use crate::summary::{Summary, check_place};
use crate::table::Table;
use crate::targets::TargetList;
use crate::writer::{Sinks, Writer};

/// Default UDP payloads: 1280 bytes of IP on either family.
const SIZE_IPV4: u16 = 1252;
const SIZE_IPV6: u16 = 1232;

/// How many rejected lines are named one by one.
const NAMED: u64 = 100;

/// Does what the options say; gives the exit status.
pub fn run(options: &Options) -> Result<u8, Failure> {
    let gate = Gate::new(
        &options.allow_net,
        &read_all(&options.blocklist)?,
        &read_all(&options.optout)?,
    )?;
    let reads_twice = options.feed && options.targets.as_deref() == Some(Path::new("-"));
    if reads_twice {
        return Err(Failure::Usage(
            "standard input cannot be both the list and the feed: give --targets FILE".into(),
        ));
    }
    let list = match &options.targets {
        Some(path) => read_targets(path)?,
        None => TargetList::default(),
    };
    check_contact(options, &list, &gate)?;
    if options.dry_run {
        return Ok(dry_run(options, &list, &gate));
    }
    let json = options.format == Some(Format::Jsonl) || options.segments.is_none();
    if json && stdout::was_closed() {
        return Err(Failure::Output(
            "standard output is closed, so records cannot be written: redirect it to a file, or give --segments DIR; \
             nothing was sent"
                .into(),
        ));
    }
    options.summary.as_deref().map_or(Ok(()), check_place)?;
    let skips = Skips::open(options.skipped.as_deref())?;
    let segments = options
        .segments
        .as_deref()
        .map(|dir| Segments::open(dir, options.resume))
        .transpose()?;
    let mut counts = Counts {
        targets: list.len() as u64,
        rejected: list.rejected,
        ..Counts::default()
    };
    let mut order: Vec<u32> = (0..list.len() as u32).collect();
    if let Some(segments) = segments.as_ref().filter(|_| options.resume) {
        let answered = segments.answered(&list)?;
        order.retain(|target| !answered.done[*target as usize]);
        counts.resumed = answered.outcomes.len() as u64;
        for outcome in answered.outcomes {
            counts.record(
                outcome,
                !matches!(outcome, Outcome::Blocked | Outcome::SendFailed),
            );
        }
    }
    let mut system = seeded_by_system()?;
    let seed = options.seed.unwrap_or_else(|| system.next_u64());
    shuffle(&mut order, seed);
    let need = [true, false].map(|v4| {
        order
            .iter()
            .any(|target| list.get(*target).ip().is_ipv4() == v4)
            || options.feed && may_leave(options, v4)
    });
    let ports = Ports::bind(
        &options.source,
        options.ports,
        need,
        system.next_u32() as u16,
    )?;
    let (stop, stop_now) = signals()?;

    let contact = options.contact.as_deref().unwrap_or_default();
    let no_packets = |e| Failure::Usage(format!("the ClientHello cannot be laid out: {e}"));
    let packets = Packets::new(contact, bytes(&mut system)).map_err(no_packets)?;
    let sizes = [
        options.initial_size.unwrap_or(SIZE_IPV4),
        options.initial_size.unwrap_or(SIZE_IPV6),
    ];
    let mut summary = Summary {
        tool: "firstflight-prober",
        tool_version: env!("CARGO_PKG_VERSION"),
        targets_file: options
            .targets
            .as_ref()
            .map_or(String::new(), |path| path.display().to_string()),
        interrupted: false,
        counts: Counts::default(),
        rate: options.rate,
        per_address_rate: options.per_address_rate,
        per_prefix_rate: options.per_prefix_rate,
        batch: batch(options.rate),
        max_new_per_second: 0,
        max_datagrams_per_second: 0,
        duration_s: 0.0,
        answer_window_ms: (options.timeout * 1000.0).round() as u64,
        settle_ms: u64::from(options.settle_ms),
        linger_ms: u64::from(options.linger_ms),
        attempts: options.attempts,
        initial_size_ipv4: sizes[0],
        initial_size_ipv6: sizes[1],
        contact: options.contact.clone(),
        template_sha256: packets.template_hash().map_err(no_packets)?,
        sources: options.source.iter().map(ToString::to_string).collect(),
        source_ports: ports.iter().map(|port| port.local.port()).collect(),
        seed,
        last_segment: None,
    };
    let picked = list.picked(&order);
    drop((list, order));
    let list = Arc::new(picked);
    let to_segments = segments.is_some();
    let (clock, start) = (Clock::start(), wall());
    let started = Instant::now();
    let progress = Progress::new(counts.targets);
    let engine = Engine::new(Parts {
        settings: Settings {
            window: (options.timeout * SECOND as f64) as Mono,
            settle: Mono::from(options.settle_ms) * 1_000_000,
            linger: Mono::from(options.linger_ms) * 1_000_000,
            attempts: options.attempts,
            sizes,
        },
        clock,
        start,
        listed: options.targets.is_some(),
        feed: options.feed.then(Feed::start).transpose()?,
        skips,
        anonymous: options.contact.is_none(),
        door: Door::new(gate),
        ports,
        packets,
        cids: CidKey::new(&options.cid_key.unwrap_or_else(|| bytes(&mut system))),
        table: Table::new(std::array::from_fn(|_| system.next_u64())),
        hold: Hold::new(
            options.per_address_rate,
            options.per_prefix_rate,
            options.turn.map(|turns| {
                turns.clocked(
                    start.saturating_sub(options.clock_offset_ms.saturating_mul(1_000_000)),
                )
            }),
            list.len(),
        ),
        rate: options.rate,
        random: system,
        counts,
        writer: Writer::start(list.clone(), Sinks { json, segments })?,
        progress,
        list,
    })?;
    let finished = engine.run(&stop, &stop_now);
    summary.duration_s = started.elapsed().as_secs_f64();
    summary.interrupted = finished.interrupted;
    (summary.max_new_per_second, summary.max_datagrams_per_second) = finished.highest;
    summary.counts = finished.counts;
    summary.last_segment = finished
        .written
        .as_ref()
        .ok()
        .copied()
        .filter(|_| to_segments);
    report(&summary);
    if let Some(path) = &options.summary {
        summary.write(path)?;
    }
    finished.written?;
    summary.counts.check()?;
    Ok(if summary.interrupted {
        130
    } else {
        u8::from(summary.counts.rejected > 0)
    })
}

/// Says in lines for people what came of a run.
fn report(summary: &Summary) {
    let counts = &summary.counts;
    let records: u64 = counts.outcomes.iter().sum();
    eprintln!(
        "probe: {records} of {} targets in {:.1} s: {}",
        counts.targets,
        summary.duration_s,
        outcomes(counts)
    );
    if counts.rejected > 0 {
        eprintln!(
            "probe: {} lines of {} were rejected",
            counts.rejected, summary.targets_file
        );
    }
    if counts.missing_tx_stamps > 0 {
        eprintln!(
            "probe: warning: {} records have no times, because the kernel gave no transmit stamp for their Initial; \
             the network driver may not support software time stamps",
            counts.missing_tx_stamps
        );
    }
    if counts.missing_rx_stamps > 0 {
        eprintln!(
            "probe: warning: {} datagrams came without a time stamp and were dropped",
            counts.missing_rx_stamps
        );
    }
    if summary.interrupted {
        eprintln!(
            "probe: interrupted; {} targets have no record",
            counts.not_done
        );
    }
}

/// Whether slots of a family could be sent from the given sources.
fn may_leave(options: &Options, v4: bool) -> bool {
    options.source.is_empty() || options.source.iter().any(|ip| ip.is_ipv4() == v4)
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        fs::read_to_string(path)
            .map(|text| (name.clone(), text))
            .map_err(|e| Failure::Input(format!("{name} cannot be read: {e}; nothing was sent")))
    };
    paths.iter().map(read).collect()
}

fn read_targets(path: &Path) -> Result<TargetList, Failure> {
    let name = path.display().to_string();
    let (input, name): (Box<dyn Read>, String) = if name == "-" {
        (Box::new(io::stdin().lock()), "standard input".to_owned())
    } else {
        let file =
            File::open(path).map_err(|e| Failure::Input(format!("{name} cannot be read: {e}")))?;
        (Box::new(file), name)
    };
    let mut rejected = 0;
    csv::read(input, &name, |line, why| {
        rejected += 1;
        match rejected {
            1..=NAMED => eprintln!("probe: {name}, line {line} rejected: {why}"),
            _ if rejected == NAMED + 1 => {
                eprintln!("probe: more lines of {name} rejected; they are counted")
            }
            _ => {}
        }
    })
}

fn check_contact(options: &Options, list: &TargetList, gate: &Gate) -> Result<(), Failure> {
    if options.contact.is_some() {
        return Ok(());
    }
    match list.iter().find(|target| gate.needs_contact(target.ip())) {
        None => Ok(()),
        Some(target) => Err(Failure::Usage(format!(
            "line {} of the list, {}, is outside every --allow-net: give --contact, so that its owner can reach you; nothing was \
             sent",
            target.line, target.ip_text
        ))),
    }
}

fn dry_run(options: &Options, list: &TargetList, gate: &Gate) -> u8 {
    let blocked = list
        .iter()
        .filter(|target| gate.judge(target.ip(), target.domain).is_err())
        .count();
    let open = list.len() - blocked;
    eprintln!(
        "probe: dry run: {} targets, {blocked} of them blocked, {} lines rejected; {open} would be probed at {} per second in \
         {:.0} s at least; nothing was sent",
        list.len(),
        list.rejected,
        options.rate,
        open as f64 / options.rate
    );
    u8::from(list.rejected > 0)
}

/// Flags set by the first, and by a second SIGINT or SIGTERM.
fn signals() -> Result<(Arc<AtomicBool>, Arc<AtomicBool>), Failure> {
    let (stop, stop_now) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Handlers run in the order of registration, so the first signal finds `stop` unset here.
        let registered = register_second(signal, &stop, &stop_now)
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()));
        registered.map_err(|e| Failure::Usage(format!("signals cannot be caught: {e}")))?;
    }
    Ok((stop, stop_now))
}

fn register_second(
    signal: i32,
    stop: &Arc<AtomicBool>,
    stop_now: &Arc<AtomicBool>,
) -> io::Result<signal_hook::SigId> {
    let (stop, stop_now) = (stop.clone(), stop_now.clone());
    // SAFETY: the action only reads and writes atomics, which a signal handler may do.
    unsafe {
        signal_hook::low_level::register(signal, move || {
            if stop.load(Ordering::Relaxed) {
                stop_now.store(true, Ordering::Relaxed);
            }
        })
    }
}

fn seeded_by_system() -> Result<ChaCha8Rng, Failure> {
    let mut seed = [0; 32];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Failure::Usage(format!("the system gives no random numbers: {e}")))?;
    Ok(ChaCha8Rng::from_seed(seed))
}

fn bytes<const N: usize>(random: &mut ChaCha8Rng) -> [u8; N] {
    let mut bytes = [0; N];
    random.fill_bytes(&mut bytes);
    bytes
}
