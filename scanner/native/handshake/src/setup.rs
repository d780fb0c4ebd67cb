//! From options to a run: assembles the parts, starts the run, and reports the result.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use firstflight_certificates::Roots;
use firstflight_core::cid::CidKey;
use firstflight_core::clock::{Clock, Mono, SECOND};
use firstflight_core::conclusion::conclude;
use firstflight_core::egress::{Egress, Ports};
use firstflight_core::feed::{Feed, Pauses};
use firstflight_core::lists::Lists;
use firstflight_core::progress::Progress;
use firstflight_core::records::{Outputs, Segments, Sinks, Writer, leave_out_answered};
use firstflight_core::signals::Signals;
use firstflight_core::targets::{Backlog, shuffle};
use firstflight_core::{Failure, random};
use firstflight_usage::tell;
use rand_chacha::rand_core::Rng;

use crate::cdn::Rules;
use crate::connection::Context;
use crate::counts::Counts;
use crate::engine::{Engine, Parts};
use crate::finished::{Inspector, RowContext, Sides};
use crate::flights::{Flights, Settings, per_connection};
use crate::options::Options;
use crate::request::{Requests, control};
use crate::row::Columns;
use crate::summary::Summary;
use crate::tls::{Ech, EchConfigs, Sni, Tls, Verify};

/// Runs the program with these options. Returns the exit status.
pub fn run(options: &Options) -> Result<u8, Failure> {
    let sending = &options.sending;
    let mut lists =
        Lists::read(&sending.inputs("handshake", options.targets.as_deref(), options.feed))?;
    if sending.dry_run {
        tell!("handshake: {}", lists.plan(options.rate));
        return Ok(u8::from(lists.targets.rejected > 0));
    }
    let roots = roots(options)?;
    let rules = options.cdn_rules.as_deref().map(Rules::read).transpose()?;
    let outputs = Outputs::<Columns>::open(&options.output.options(None))?;
    let sides = sides(options)?;
    let keylog = options.keylog.as_deref().map(open_keylog).transpose()?;
    let Lists { policy, targets } = lists;
    let mut counts = Counts::default();
    counts.tally.targets = targets.len() as u64;
    counts.tally.rejected = targets.rejected;
    let mut order: Vec<u32> = (0..targets.len() as u32).collect();
    let Sinks { json, segments, .. } = outputs.records;
    if let Some(segments) = segments.as_ref().filter(|_| options.output.resume) {
        leave_out_answered(&mut order, &mut counts.tally, segments, &targets)?;
    }
    let mut system = random::seeded_by_system()?;
    let seed = sending.seed.unwrap_or_else(|| system.next_u64());
    shuffle(&mut order, seed);
    let first_port = system.next_u32() as u16;
    let ports = Ports::for_targets(
        &sending.source,
        sending.ports,
        &targets,
        &order,
        false,
        first_port,
    )?;
    let signals = Signals::catch()?;

    let store = roots.as_ref().map(Roots::name);
    let summary = Summary::new(options, &ports, store, seed);
    let list = Arc::new(targets.picked(&order));
    drop((targets, order));
    let (clock, start) = Clock::start_by_wall();
    let started = Instant::now();
    let progress = Progress::new(
        "handshake",
        Some(counts.tally.targets),
        options.output.progress.as_deref(),
    );
    let cid_key = sending
        .cid_key
        .unwrap_or_else(|| random::bytes(&mut system));
    let engine = Engine::new(Parts {
        clock,
        pauses: Pauses::new(options.feed.then(Feed::start).transpose()?),
        backlog: Backlog::new(list.clone(), sending.rate_limits(start, seed, list.len())),
        flights: Flights::new(
            Arc::new(context(options, keylog)?),
            Settings {
                sizes: options.initial_sizes(),
                cooldown: Mono::from(options.linger_ms) * 1_000_000,
                second: options.second,
            },
            CidKey::new(&cid_key),
            ports.locals(),
            counts,
        ),
        egress: Egress::new(policy, ports, (options.rate, per_target(options)), clock),
        requests: Requests::new(options.path.clone(), options.user_agent()),
        random: system,
        writer: Writer::start(
            RowContext {
                list: list.clone(),
                inspector: Inspector::new(roots),
                rules,
            },
            Sinks {
                json,
                segments,
                sides,
            },
        )?,
        progress,
        list,
    })?;
    let result = engine.run(&signals);
    let duration_s = started.elapsed().as_secs_f64();
    conclude("handshake", &options.output, summary, duration_s, result)
}

/// Returns an upper bound for the average number of datagrams per target.
fn per_target(options: &Options) -> u64 {
    per_connection(options.key_share.hello_datagrams())
}

/// Returns the settings that all connections share.
fn context(options: &Options, keylog: Option<File>) -> Result<Context, Failure> {
    let control = control()
        .map_err(|e| Failure::Usage(format!("the control stream cannot be built: {e}")))?;
    let contact = options.sending.contact.as_deref().unwrap_or_default();
    let versions = options.versions.0.clone();
    let configs = match &options.ech_configs {
        Some(_) if options.sni == Sni::None => {
            return Err(Failure::Usage(
                "--ech-configs needs ClientHellos with a name: remove --sni none".into(),
            ));
        }
        Some(path) => EchConfigs::read(path)?,
        None => EchConfigs::default(),
    };
    Ok(Context {
        tls: Tls::new(
            options.key_share,
            options.verify,
            keylog,
            versions.len() > 1,
        )?
        .with_hello(&options.alpn, options.sni == Sni::Target)
        .with_ech(options.ech == Ech::Grease, configs)?
        .with_tickets(options.second),
        versions,
        control: control.into(),
        contact: contact.as_bytes().to_vec(),
        timeout: (options.timeout * SECOND as f64) as Mono,
    })
}

/// Returns the roots for the checks of chains, if chains are checked.
fn roots(options: &Options) -> Result<Option<Roots>, Failure> {
    match (&options.roots, options.verify) {
        (None, Verify::Chain) => Ok(Some(Roots::mozilla())),
        (Some(path), Verify::Chain) => {
            let shown = path.display();
            let unreadable =
                |why: String| Failure::Input(format!("--roots {shown}: {why}; nothing was sent"));
            let pem = fs::read(path).map_err(|e| unreadable(e.to_string()))?;
            Roots::of_pem(&pem).map(Some).map_err(unreadable)
        }
        (Some(_), _) => Err(Failure::Usage(
            "--roots is only for --verify chain: add --verify chain or remove --roots".into(),
        )),
        (None, _) => Ok(None),
    }
}

/// Opens the segments of certificates and responses, below the folder of the handshakes.
fn sides(options: &Options) -> Result<Sides, Failure> {
    let Some(folder) = &options.output.segments else {
        return Ok(Sides::default());
    };
    let resume = options.output.resume;
    Ok(Sides {
        certificates: Some(Segments::open(&folder.join("certificate"), resume)?),
        responses: Some(Segments::open(&folder.join("http3_response"), resume)?),
    })
}

fn open_keylog(path: &Path) -> Result<File, Failure> {
    let file = File::options().append(true).create(true).open(path);
    file.map_err(|e| {
        Failure::Usage(format!(
            "--keylog {}: {e}; name a file to append to",
            path.display()
        ))
    })
}
