//! From options to a run: assembles the parts, starts the run, and reports the result.

use std::sync::Arc;
use std::time::Instant;

use firstflight_core::clock::{Clock, Mono, SECOND};
use firstflight_core::conclusion::conclude;
use firstflight_core::egress::{Egress, Ports};
use firstflight_core::feed::{Feed, Schedule};
use firstflight_core::lists::Lists;
use firstflight_core::progress::Progress;
use firstflight_core::records::{Outputs, Writer, leave_out_answered};
use firstflight_core::signals::Signals;
use firstflight_core::targets::{Backlog, shuffle};
use firstflight_core::{Failure, random};
use firstflight_usage::tell;
use rand_chacha::rand_core::Rng;

use crate::counts::Counts;
use crate::engine::{Engine, Parts};
use crate::options::{Offered, Options};
use crate::pace::Pace;
use crate::packets::Packets;
use crate::probes::{PER_PROBE, Probes, Settings};
use crate::row::Columns;
use crate::sizes::{InitialSizes, Sizes};
use crate::summary::Summary;
use firstflight_core::cid::CidKey;

/// Runs the program with these options. Returns the exit status.
pub fn run(options: &Options) -> Result<u8, Failure> {
    let mut lists = Lists::read(&options.sending.inputs(
        "probe",
        options.targets.as_deref(),
        options.feed,
    ))?;
    let sizes = options.sizes();
    check(options, &sizes, lists.targets.len())?;
    if options.sending.dry_run {
        tell!("probe: {}", lists.plan(options.rate));
        if sizes.is_sweep() {
            let count = sizes.per_target();
            tell!("probe: each target has {count} probes, one per size: {count} times as long");
        }
        return Ok(u8::from(lists.targets.rejected > 0));
    }
    let outputs = Outputs::<Columns>::open(&options.output.options(options.skipped.as_deref()))?;
    let Lists { policy, targets } = lists;
    let mut counts = Counts::default();
    let mut order = sizes.probes(targets.len()).map_err(Failure::Usage)?;
    counts.tally.targets = order.len() as u64;
    counts.tally.rejected = targets.rejected;
    if let Some(segments) = outputs
        .records
        .segments
        .as_ref()
        .filter(|_| options.output.resume)
    {
        leave_out_answered(&mut order, &mut counts.tally, segments, &targets)?;
    }
    let mut system = random::seeded_by_system()?;
    let seed = options.sending.seed.unwrap_or_else(|| system.next_u64());
    shuffle(&mut order, seed);
    let sizes = sizes.assign(&mut order, targets.len());
    let ports = Ports::for_targets(
        &options.sending.source,
        options.sending.ports,
        &targets,
        &order,
        options.feed,
        system.next_u32() as u16,
    )?;
    if let Some(mark) = options.ecn {
        ports.mark(mark.field())?;
    }
    let signals = Signals::catch()?;

    let contact = options.sending.contact.as_deref().unwrap_or_default();
    let no_packets = |e| Failure::Usage(format!("the ClientHello cannot be built: {e}"));
    let packets = Packets::new(contact, random::bytes(&mut system)).map_err(no_packets)?;
    let template_sha256 = packets.template_hash().map_err(no_packets)?;
    let summary = Summary::new(options, &ports, template_sha256, seed);
    let picked = targets.picked(&order);
    drop((targets, order));
    let list = Arc::new(picked);
    let (clock, start) = Clock::start_by_wall();
    let pace = Pace::new(options.rate);
    let started = Instant::now();
    let progress = Progress::new(
        "probe",
        Some(counts.tally.targets),
        options.output.progress.as_deref(),
    );
    let cid_key = options
        .sending
        .cid_key
        .unwrap_or_else(|| random::bytes(&mut system));
    let table_key = std::array::from_fn(|_| system.next_u64());
    let engine = Engine::new(Parts {
        clock,
        listed: options.targets.is_some(),
        backlog: Backlog::new(
            list.clone(),
            options.sending.rate_limits(start, seed, list.len()),
        ),
        schedule: Schedule::new(
            options.feed.then(Feed::start).transpose()?,
            outputs.skips,
            start,
            options.sending.contact.is_some(),
        ),
        probes: Probes::new(
            settings(options, sizes),
            CidKey::new(&cid_key),
            ports.locals(),
            table_key,
            counts,
        ),
        egress: Egress::new(policy, ports, (options.rate, PER_PROBE), clock)
            .in_batches((options.rate, PER_PROBE), pace.batch),
        pace,
        packets,
        random: system,
        writer: Writer::start(list.clone(), outputs.records)?,
        progress,
        list,
    })?;
    let result = engine.run(&signals);
    let duration_s = started.elapsed().as_secs_f64();
    conclude("probe", &options.output, summary, duration_s, result)
}

/// Maximum number of probes in a run that listens. Each probe costs a server retransmissions, and state for that time.
const MOST_LISTENED: usize = 1000;

/// Rejects options that do not fit each other or the number of targets.
fn check(options: &Options, sizes: &Sizes, targets: usize) -> Result<(), Failure> {
    let probes = targets.saturating_mul(sizes.per_target());
    let problem = if sizes.is_sweep() && options.output.segments.is_some() {
        "--initial-size with several sizes writes JSON lines only, because --segments holds one row per \
         target: remove --segments, or set probe.initial_sizes of a campaign, which probes with one size \
         per repetition"
            .to_owned()
    } else if options.listen.is_some() && probes > MOST_LISTENED {
        format!(
            "--listen makes every server retransmit, so it is limited to {MOST_LISTENED} probes, \
             but these are {probes}: draw a sample of the targets; nothing was sent"
        )
    } else {
        return Ok(());
    };
    Err(Failure::Usage(problem))
}

fn settings(options: &Options, sizes: InitialSizes) -> Settings {
    Settings {
        window: (options.timeout * SECOND as f64) as Mono,
        settle: Mono::from(options.settle_ms) * 1_000_000,
        cooldown: Mono::from(options.linger_ms) * 1_000_000,
        attempts: options.attempts,
        sizes,
        listen: options.listen.map(|s| (s * SECOND as f64) as Mono),
        reserved: options.offered == Offered::Reserved,
        ecn: options.ecn,
    }
}

#[cfg(test)]
mod tests;
