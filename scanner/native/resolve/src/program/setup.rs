//! Assembles a run from its options, starts it and reports the result.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use firstflight_core::clock::{Clock, Mono, SECOND};
use firstflight_core::connected::{Connected, Server};
use firstflight_core::policy::{Namespace, Policy};
use firstflight_core::progress::Progress;
use firstflight_core::records::{Outputs, Writer, summary};
use firstflight_core::signals::Signals;
use firstflight_core::{Failure, random};

use crate::engine::{Engine, RunResult};
use crate::input::answered::Answered;
use crate::input::names::Names;
use crate::input::resume;
use crate::program::options::Options;
use crate::program::report;
use crate::program::summary::Summary;
use crate::questions::checks::Checks;
use crate::questions::resolvers::{Named, Resolvers, first_name_server};
use crate::questions::table::{Settings, Table};
use crate::results::row::{Columns, Context};

/// Prefix of messages.
pub const PROGRAM: &str = "firstflight resolve";

/// Runs the command; returns the exit status.
pub fn run(options: &Options) -> Result<u8, Failure> {
    let named = resolvers(options)?;
    let servers: Vec<Server> = named
        .iter()
        .map(|resolver| Server {
            address: resolver.address,
            rate: options.rate_to(resolver.address.ip()),
        })
        .collect();
    let policy = policy(options, &servers)?;
    let clock = Clock::start();
    let connected = Connected::new(policy, &servers, random::seeded_by_system()?, clock)?;
    if options.dry_run {
        report::dry_run(&named, &servers, &options.distinct_types());
        return Ok(0);
    }
    let outputs = Outputs::<Columns>::open(&options.output.options(None))?;
    let resolvers = Resolvers::new(&named);
    let labels: Vec<String> = resolvers
        .all()
        .iter()
        .map(|resolver| resolver.label.clone())
        .collect();
    let answered = match outputs
        .records
        .segments
        .as_ref()
        .filter(|_| options.output.resume)
    {
        Some(segments) => resume::answered(segments, &labels, &options.distinct_types())?,
        None => Answered::default(),
    };
    let names = match &options.names {
        Some(list) => Names::open(PROGRAM, list, answered)?,
        None => Names::given(PROGRAM, &options.name)?,
    };
    let signals = Signals::catch()?;
    let progress = Progress::new(
        "resolve",
        names.remaining(),
        options.output.progress.as_deref(),
    );
    let started = Instant::now();
    let written = Arc::new(AtomicU64::new(0));
    let engine = Engine {
        names,
        table: Table::new(settings(options), resolvers, random::seeded_by_system()?),
        connected,
        writer: Writer::start(
            Context {
                labels,
                written: written.clone(),
            },
            outputs.records,
        )?,
        finished: 0,
        pushed: 0,
        written,
        checks: Checks::new(options.silence, options.timeout),
        progress,
        clock,
        server_count: servers.len(),
        rates: servers.iter().map(|server| server.rate).collect(),
    };
    let result = engine.run(&signals);
    let mut summary = Summary::new(options, &servers);
    summary.duration_s = started.elapsed().as_secs_f64();
    conclude(options, summary, result)
}

/// Returns the resolvers of the options, or the first resolver of this machine.
fn resolvers(options: &Options) -> Result<Vec<Named>, Failure> {
    let mut named: Vec<Named> = Vec::new();
    for resolver in &options.resolver {
        if named
            .iter()
            .any(|before| before.address == resolver.address)
        {
            let label = resolver.label();
            return Err(Failure::Usage(format!(
                "the resolver {label} is given twice: give it once, with its weight"
            )));
        }
        named.push(resolver.clone());
    }
    if named.is_empty() {
        let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        named.extend(first_name_server(&text));
    }
    if named.is_empty() {
        return Err(Failure::Usage(
            "/etc/resolv.conf has no resolver: give one with --resolver; nothing was sent".into(),
        ));
    }
    Ok(named)
}

/// Reads the lists. Names on an opt-out list are still resolved, because only the resolver is contacted.
fn policy(options: &Options, servers: &[Server]) -> Result<Policy, Failure> {
    let ips: Vec<IpAddr> = servers.iter().map(|server| server.address.ip()).collect();
    let policy = Policy::read(
        &options.allow_net,
        &options.blocklist,
        &options.optout,
        Namespace::here(&[])?,
    )?;
    Ok(policy.with_servers(&ips))
}

fn settings(options: &Options) -> Settings {
    Settings {
        types: options.distinct_types(),
        timeout: (options.timeout * SECOND as f64) as Mono,
        attempts: options.attempts,
        concurrency: options.concurrency as usize,
        mixed: !options.lower_case,
    }
}

/// Reports and writes a run's results; returns the exit status.
fn conclude(options: &Options, mut summary: Summary, result: RunResult) -> Result<u8, Failure> {
    let last = result.written.as_ref().ok().copied();
    summary.last_segment = last.filter(|_| options.output.segments.is_some());
    let rejected = result.table.counts.rejected;
    summary.take(&result);
    report::finished(&summary);
    if let Some(path) = &options.output.summary {
        summary::write(&summary, path)?;
    }
    result.written?;
    Ok(if result.interrupted {
        130
    } else {
        u8::from(rejected > 0)
    })
}
