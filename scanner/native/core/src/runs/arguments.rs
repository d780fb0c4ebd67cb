//! The options of every engine with a list of targets: limits, sources, lists, contact.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cid::parse_key;
use crate::clock::Stamp;
use crate::input::lists::InputOptions;
use crate::limits::rate_limit::RateLimits;
use crate::limits::shared_limits::SharedLimits;

/// Name of the option `--version VALUE`, a QUIC version, in clap. Without a value, `--version` is clap's own
/// option.
pub const VERSION_OPTION: &str = "quic-version";

/// Renames `--version VALUE` and `--version=VALUE` to [`VERSION_OPTION`], so that clap can tell them from
/// `--version` without a value.
pub fn with_version_option(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    for place in 0..arguments.len() {
        let value = arguments.get(place + 1).and_then(|next| next.to_str());
        let given = value.is_some_and(|value| !value.starts_with('-'));
        let argument = arguments[place].to_str().unwrap_or_default();
        if argument == "--version" && given {
            arguments[place] = format!("--{VERSION_OPTION}").into();
        } else if let Some(value) = argument.strip_prefix("--version=") {
            arguments[place] = format!("--{VERSION_OPTION}={value}").into();
        }
    }
    arguments
}

/// Options for sending to targets: limits, sources, lists, contact.
#[derive(Args, Clone, Debug, Default)]
pub struct SendingArguments {
    /// Names and addresses to probe, instead of a list; every address of a name is a target
    #[arg(value_name = "NAME", conflicts_with_all = ["targets", "feed", "segments"])]
    pub names: Vec<String>,

    /// Resolver for the names: IP, IP:PORT or IP#PORT (repeatable; default: the first of /etc/resolv.conf)
    #[arg(long, value_name = "RESOLVER", conflicts_with_all = ["targets", "feed"])]
    pub resolver: Vec<String>,

    /// Port for targets that are names (default: 443)
    #[arg(long, value_name = "N", conflicts_with_all = ["targets", "feed"], value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// New probes per second to one address; 0 = no limit
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = rate)]
    pub per_address_rate: f64,

    /// New probes per second to one /24 (IPv6: /48); 0 = no limit
    #[arg(long, value_name = "N", default_value_t = 20.0, value_parser = rate)]
    pub per_prefix_rate: f64,

    /// Share the limits per address and prefix with other vantage points. This is number K (from 0) of N. Only
    /// one vantage point probes a prefix for LENGTH seconds at a time, and none does for the last PAUSE seconds
    #[arg(long, value_name = "K/N:LENGTH:PAUSE", value_parser = shared_limits)]
    pub turn: Option<SharedLimits>,

    /// Correct turns by this offset: how far this machine's clock is ahead of the other vantage points' clocks
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        requires = "turn"
    )]
    pub clock_offset_ms: i64,

    /// Source address (repeatable; default: chosen by the routing table)
    #[arg(long, value_name = "IP")]
    pub source: Vec<IpAddr>,

    /// Source ports, bound for the whole run (default: 16 free ports from 61000 upwards)
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub ports: Option<(u16, u16)>,

    /// Addresses never to contact: ZMap's format, an address or network per line, # comments (repeatable)
    #[arg(long, value_name = "FILE")]
    pub blocklist: Vec<PathBuf>,

    /// Names (with their subdomains), addresses and networks that opted out (repeatable)
    #[arg(long, value_name = "FILE")]
    pub optout: Vec<PathBuf>,

    /// How owners of probed servers can reach you; sent as the reason phrase of every close
    #[arg(long, value_name = "TEXT", value_parser = contact)]
    pub contact: Option<String>,

    /// Network that may be probed without --contact (repeatable); only inside loopback, RFC 1918, fc00::/7,
    /// 198.18.0.0/15, 2001:db8::/32
    #[arg(long, value_name = "CIDR")]
    pub allow_net: Vec<String>,

    /// Check lists and settings and describe the run, but send nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Seed of the random order (default: random, written to the summary)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Key of the connection IDs, 32 hex digits (default: random)
    #[arg(long, value_name = "HEX", value_parser = parse_key)]
    pub cid_key: Option<[u8; 16]>,
}

impl SendingArguments {
    /// Returns the limits per address and prefix for `targets` targets. `start`: UTC time at which the
    /// monotonic clock was 0; `seed`: seed of the random order.
    pub fn rate_limits(&self, start: Stamp, seed: u64, targets: usize) -> RateLimits {
        let offset = self.clock_offset_ms.saturating_mul(1_000_000);
        let shared = self
            .turn
            .map(|limits| limits.on_clock(start.saturating_sub(offset)));
        RateLimits::new(self.per_address_rate, self.per_prefix_rate, shared, targets)
            .with_seed(seed)
    }

    /// Returns the list options of the engine `name`. `targets`: file of targets; `feed`: standard input is
    /// the feed.
    pub fn inputs<'a>(
        &'a self,
        name: &'static str,
        targets: Option<&'a Path>,
        feed: bool,
    ) -> InputOptions<'a> {
        InputOptions {
            name,
            targets,
            names: &self.names,
            feed,
            allow_net: &self.allow_net,
            blocklist: &self.blocklist,
            optout: &self.optout,
            source: &self.source,
            contact: self.contact.is_some(),
        }
    }
}

/// Reads a number up to 10 million.
fn number(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|n: &f64| n.is_finite() && *n <= 1e7)
        .ok_or_else(|| "not a number up to 10 million".into())
}

/// Reads a number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    number(text).and_then(|n| {
        if n > 0.0 {
            Ok(n)
        } else {
            Err("must be above 0".into())
        }
    })
}

/// Reads a number of at least 0.
pub fn rate(text: &str) -> Result<f64, String> {
    number(text).and_then(|n| {
        if n >= 0.0 {
            Ok(n)
        } else {
            Err("must not be below 0".into())
        }
    })
}

/// Reads a number of seconds above 0, at most 60.
pub fn seconds(text: &str) -> Result<f64, String> {
    positive(text).and_then(|n| {
        if n <= 60.0 {
            Ok(n)
        } else {
            Err("must be at most 60 seconds".into())
        }
    })
}

/// Returns a parser for milliseconds, at most a minute.
pub fn milliseconds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=60_000)
}

/// Reads a range of ports.
fn ports(text: &str) -> Result<(u16, u16), String> {
    let parsed = text
        .split_once('-')
        .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    let wrong =
        "write it like 61000-61015: first and last port, at least two and at most 1024 of them";
    parsed
        .filter(|(a, b)| *a > 0 && a < b && b - a < 1024)
        .ok_or_else(|| wrong.into())
}

/// Reads the value of `--turn`.
fn shared_limits(text: &str) -> Result<SharedLimits, String> {
    let wrong = "write it like 0/4:15:3: number and count of vantage points, seconds of a turn, \
                 seconds of pause in it";
    let parse = || {
        let (place, times) = text.split_once(':')?;
        let (index, of) = place.split_once('/')?;
        let (length, pause) = times.split_once(':')?;
        let ns = |text: &str| Some((number(text).ok()? * 1e9) as u64);
        let limits = SharedLimits {
            index: index.parse().ok()?,
            of: of.parse().ok()?,
            length: ns(length)?,
            pause: ns(pause)?,
        };
        (limits.index < limits.of && limits.of <= 1000 && limits.pause < limits.length)
            .then_some(limits)
    };
    parse().ok_or_else(|| wrong.into())
}

/// Checks a contact, which must fit into a packet of 1200 bytes.
fn contact(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("must state how to reach you".into()),
        text if text.chars().any(char::is_control) => Err("must be one line of text".into()),
        text if text.len() > 500 => Err("must not be longer than 500 bytes".into()),
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests;
