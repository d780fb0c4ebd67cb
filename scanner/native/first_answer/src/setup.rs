//! From options to a run: puts its parts together, starts it, and says what came of it.

use std::sync::Arc;
use std::time::Instant;

use rand_chacha::rand_core::Rng;

use crate::cid::CidKey;
use crate::counts::Counts;
use crate::engine::{Engine, Parts, RunResult, Settings};
use crate::options::{Format, Options};
use crate::outcome::Outcome;
use crate::packets::Packets;
use crate::report;
use crate::row::Columns;
use crate::summary::Summary;
use crate::table::Table;
use firstflight_core::clock::{Clock, Mono, SECOND, wall};
use firstflight_core::egress::Egress;
use firstflight_core::egress::ports::Ports;
use firstflight_core::error::Failure;
use firstflight_core::feed::Feed;
use firstflight_core::inputs::InputOptions;
use firstflight_core::inputs::Lists;
use firstflight_core::progress::Progress;
use firstflight_core::random;
use firstflight_core::rate_limit::RateLimits;
use firstflight_core::records::outcome::Outcome as _;
use firstflight_core::records::outputs::OutputOptions;
use firstflight_core::records::outputs::Outputs;
use firstflight_core::records::segments::Segments;
use firstflight_core::records::summary::write;
use firstflight_core::records::writer::Writer;
use firstflight_core::signals::Signals;
use firstflight_core::targets::TargetList;
use firstflight_core::targets::order::shuffle;

/// Does what the options say; gives the exit status.
pub fn run(options: &Options) -> Result<u8, Failure> {
    let lists = Lists::read(&input_options(options))?;
    if options.dry_run {
        report::dry_run(&lists, options.rate);
        return Ok(u8::from(lists.targets.rejected > 0));
    }
    let outputs = Outputs::open(&output_options(options))?;
    let Lists { policy, targets } = lists;
    let mut counts = Counts {
        targets: targets.len() as u64,
        rejected: targets.rejected,
        ..Counts::default()
    };
    let mut order: Vec<u32> = (0..targets.len() as u32).collect();
    if let Some(segments) = outputs.records.segments.as_ref().filter(|_| options.resume) {
        leave_out_answered(&mut order, &mut counts, segments, &targets)?;
    }
    let mut system = random::seeded_by_system()?;
    let seed = options.seed.unwrap_or_else(|| system.next_u64());
    shuffle(&mut order, seed);
    let ports = bind(options, &targets, &order, system.next_u32() as u16)?;
    let signals = Signals::catch()?;

    let contact = options.contact.as_deref().unwrap_or_default();
    let no_packets = |e| Failure::Usage(format!("the ClientHello cannot be laid out: {e}"));
    let packets = Packets::new(contact, random::bytes(&mut system)).map_err(no_packets)?;
    let template_sha256 = packets.template_hash().map_err(no_packets)?;
    let mut summary = Summary::new(options, &ports, template_sha256, seed);
    let picked = targets.picked(&order);
    drop((targets, order));
    let list = Arc::new(picked);
    let (clock, start) = (Clock::start(), wall());
    let started = Instant::now();
    let progress = Progress::new("probe", counts.targets);
    let engine = Engine::new(Parts {
        settings: Settings {
            window: (options.timeout * SECOND as f64) as Mono,
            settle: Mono::from(options.settle_ms) * 1_000_000,
            cooldown: Mono::from(options.linger_ms) * 1_000_000,
            attempts: options.attempts,
            sizes: options.initial_sizes(),
        },
        clock,
        start,
        listed: options.targets.is_some(),
        feed: options.feed.then(Feed::start).transpose()?,
        skips: outputs.skips,
        anonymous: options.contact.is_none(),
        egress: Egress::new(policy),
        ports,
        packets,
        cids: CidKey::new(
            &options
                .cid_key
                .unwrap_or_else(|| random::bytes(&mut system)),
        ),
        table: Table::new(std::array::from_fn(|_| system.next_u64())),
        limits: RateLimits::new(
            options.per_address_rate,
            options.per_prefix_rate,
            options.turn.map(|turns| {
                turns.on_clock(
                    start.saturating_sub(options.clock_offset_ms.saturating_mul(1_000_000)),
                )
            }),
            list.len(),
        ),
        rate: options.rate,
        random: system,
        counts,
        writer: Writer::start(list.clone(), outputs.records)?,
        progress,
        list,
    })?;
    let finished = engine.run(&signals);
    summary.duration_s = started.elapsed().as_secs_f64();
    conclude(options, summary, finished)
}

/// Says and writes what came of a run; gives the exit status.
fn conclude(options: &Options, mut summary: Summary, finished: RunResult) -> Result<u8, Failure> {
    summary.interrupted = finished.interrupted;
    (summary.max_new_per_second, summary.max_datagrams_per_second) = finished.highest;
    summary.counts = finished.counts;
    let last = finished.written.as_ref().ok().copied();
    summary.last_segment = last.filter(|_| options.segments.is_some());
    report::finished(&summary);
    if let Some(path) = &options.summary {
        write(&summary, path)?;
    }
    finished.written?;
    summary.counts.check()?;
    Ok(if summary.interrupted {
        130
    } else {
        u8::from(summary.counts.rejected > 0)
    })
}

/// Takes the targets out of `order` that earlier segments answer, and counts their outcomes.
fn leave_out_answered(
    order: &mut Vec<u32>,
    counts: &mut Counts,
    segments: &Segments<Columns<'static>>,
    targets: &TargetList,
) -> Result<(), Failure> {
    let answered = segments.answered::<Outcome>(targets)?;
    order.retain(|target| !answered.done[*target as usize]);
    counts.resumed = answered.outcomes.len() as u64;
    for outcome in answered.outcomes {
        counts.record(outcome, outcome.was_sent());
    }
    Ok(())
}

fn input_options(options: &Options) -> InputOptions<'_> {
    InputOptions {
        name: "probe",
        targets: options.targets.as_deref(),
        feed: options.feed,
        allow_net: &options.allow_net,
        blocklist: &options.blocklist,
        optout: &options.optout,
        source: &options.source,
        contact: options.contact.is_some(),
    }
}

fn output_options(options: &Options) -> OutputOptions<'_> {
    OutputOptions {
        json: options.format == Some(Format::Jsonl) || options.segments.is_none(),
        segments: options.segments.as_deref(),
        resume: options.resume,
        summary: options.summary.as_deref(),
        skipped: options.skipped.as_deref(),
    }
}

/// Binds ports of the families that targets and slots need.
fn bind(
    options: &Options,
    targets: &TargetList,
    order: &[u32],
    random: u16,
) -> Result<Ports, Failure> {
    let feed_may_use =
        |v4| options.source.is_empty() || options.source.iter().any(|ip| ip.is_ipv4() == v4);
    let need = [true, false].map(|v4| {
        order
            .iter()
            .any(|target| targets.get(*target).ip().is_ipv4() == v4)
            || options.feed && feed_may_use(v4)
    });
    Ports::bind(&options.source, options.ports, need, random)
}
