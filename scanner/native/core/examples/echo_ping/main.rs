//! A second engine, as small as possible: it sends one UDP datagram per target and expects one echo.
//!
//! The core provides the lists, limits, segments, resume and an orderly stop on Ctrl-C. The engine adds its
//! datagrams, its table of probes and its rows. It can contact only 127.0.0.0/8: it allows no other network,
//! gives no contact, and sends from 127.0.0.1.

#![forbid(unsafe_code)]

mod engine;
mod record;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use firstflight_core::clock::Clock;
use firstflight_core::egress::{Egress, Ports};
use firstflight_core::lists::{InputOptions, Lists};
use firstflight_core::rate_limit::RateLimits;
use firstflight_core::records::{
    OutputOptions, Outputs, Tally, Writer, leave_out_answered, summary,
};
use firstflight_core::run;
use firstflight_core::signals::Signals;
use firstflight_core::targets::Backlog;
use firstflight_core::{Failure, random};
use rand_chacha::rand_core::Rng;

use engine::Engine;
use record::{Columns, Counts, Outcome};

/// Sends an echo request to each target on this machine.
#[derive(Parser)]
struct Options {
    #[arg(long)]
    targets: PathBuf,
    #[arg(long)]
    segments: PathBuf,
    #[arg(long)]
    resume: bool,
    #[arg(long)]
    summary: Option<PathBuf>,
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    #[arg(long, default_value_t = 0.0)]
    per_address_rate: f64,
    #[arg(long, default_value_t = 0.0)]
    per_prefix_rate: f64,
    #[arg(long, default_value_t = 1000)]
    timeout_ms: u64,
    #[arg(long)]
    blocklist: Vec<PathBuf>,
    #[arg(long)]
    optout: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match ping(&Options::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            eprintln!("ping: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}

fn ping(options: &Options) -> Result<u8, Failure> {
    let source = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let Lists { policy, targets } = Lists::read(&InputOptions {
        name: "ping",
        targets: Some(&options.targets),
        names: &[],
        feed: false,
        allow_net: &["127.0.0.0/8".to_owned()],
        blocklist: &options.blocklist,
        optout: &options.optout,
        source: &source,
        contact: false,
    })?;
    let outputs = Outputs::<Columns>::open(&OutputOptions {
        json: false,
        text: false,
        segments: Some(&options.segments),
        resume: options.resume,
        summary: options.summary.as_deref(),
        progress: None,
        skipped: None,
    })?;
    let mut tally = Tally::<Outcome>::default();
    tally.targets = targets.len() as u64;
    tally.rejected = targets.rejected;
    let mut order: Vec<u32> = (0..targets.len() as u32).collect();
    if let Some(segments) = outputs.records.segments.as_ref().filter(|_| options.resume) {
        leave_out_answered(&mut order, &mut tally, segments, &targets)?;
    }
    let first_port = random::seeded_by_system()?.next_u32() as u16;
    let ports = Ports::for_targets(&source, None, &targets, &order, false, first_port)?;
    let signals = Signals::catch()?;
    let list = Arc::new(targets.picked(&order));
    let clock = Clock::start();
    let limits = RateLimits::new(
        options.per_address_rate,
        options.per_prefix_rate,
        None,
        list.len(),
    );
    let engine = Engine::new(
        Backlog::new(list.clone(), limits),
        Egress::new(policy, ports, (options.rate, 1), clock),
        Writer::start(list.clone(), outputs.records)?,
        list,
        clock,
        Duration::from_millis(options.timeout_ms),
        Counts(tally),
    )?;
    let result = run::run(engine, &signals);
    result.written?;
    if let Some(path) = &options.summary {
        summary::write(&result.counts, path)?;
    }
    result.counts.0.check()?;
    Ok(if result.interrupted { 130 } else { 0 })
}
