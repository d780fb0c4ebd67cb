//! Assembles a run from its options, starts it and reports the result.

use std::sync::Arc;
use std::time::Instant;

use firstflight_core::clock::{Clock, Mono, SECOND};
use firstflight_core::conclusion::conclude;
use firstflight_core::connects::{Connects, Origin};
use firstflight_core::feed::{Feed, Pauses};
use firstflight_core::lists::Lists;
use firstflight_core::progress::Progress;
use firstflight_core::records::{Outputs, Writer, leave_out_answered};
use firstflight_core::signals::Signals;
use firstflight_core::targets::{Backlog, shuffle};
use firstflight_core::{Failure, random};
use firstflight_usage::tell;
use rand_chacha::rand_core::Rng;

use crate::asking::Rules;
use crate::counts::Counts;
use crate::engine::{Engine, Parts};
use crate::offered::Offered;
use crate::options::Options;
use crate::row::Columns;
use crate::summary::Summary;

/// Maximum number of open connections.
const IN_FLIGHT: usize = 16_384;

/// Runs the command; returns the exit status.
pub fn run(options: &Options) -> Result<u8, Failure> {
    let sending = &options.sending;
    let mut lists =
        Lists::read(&sending.inputs("tcp-options", options.targets.as_deref(), options.feed))?;
    let offered = Offered::here();
    if let Some(warning) = offered.warning() {
        tell!("tcp-options: {warning}");
    }
    if sending.dry_run {
        tell!("tcp-options: {}", lists.plan(options.rate));
        return Ok(u8::from(lists.targets.rejected > 0));
    }
    let outputs = Outputs::<Columns>::open(&options.output.options(None))?;
    let Lists { policy, targets } = lists;
    let mut counts = Counts::default();
    counts.tally.targets = targets.len() as u64;
    counts.tally.rejected = targets.rejected;
    let mut order: Vec<u32> = (0..targets.len() as u32).collect();
    let resumed = outputs.records.segments.as_ref();
    if let Some(segments) = resumed.filter(|_| options.output.resume) {
        leave_out_answered(&mut order, &mut counts.tally, segments, &targets)?;
    }
    let mut system = random::seeded_by_system()?;
    let seed = sending.seed.unwrap_or_else(|| system.next_u64());
    shuffle(&mut order, seed);
    let signals = Signals::catch()?;
    let summary = Summary::new(options, offered, seed)?;
    let list = Arc::new(targets.picked(&order));
    drop((targets, order));
    let (clock, start) = Clock::start_by_wall();
    let started = Instant::now();
    let origin = Origin {
        sources: sending.source.clone(),
        ports: sending.ports,
    };
    let engine = Engine::new(Parts {
        clock,
        pauses: Pauses::new(options.feed.then(Feed::start).transpose()?),
        backlog: Backlog::new(list.clone(), sending.rate_limits(start, seed, list.len())),
        connects: Connects::new(policy, origin, (options.rate, IN_FLIGHT), clock)?,
        rules: Rules {
            offered,
            attempts: options.attempts,
        },
        timeout: (options.timeout * SECOND as f64) as Mono,
        writer: Writer::start(list.clone(), outputs.records)?,
        progress: Progress::new(
            "tcp-options",
            Some(counts.tally.targets),
            options.output.progress.as_deref(),
        ),
        counts,
        list,
    });
    let result = engine.run(&signals);
    let duration_s = started.elapsed().as_secs_f64();
    conclude("tcp-options", &options.output, summary, duration_s, result)
}
