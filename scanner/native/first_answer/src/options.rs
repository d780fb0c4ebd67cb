//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Parser;
use firstflight_core::records::OutputArguments;
use firstflight_core::shared_limits::SharedLimits;

use crate::cid::parse_key;

/// Default UDP payloads: 1280 bytes of IP on either family.
const SIZE_IPV4: u16 = 1252;
const SIZE_IPV6: u16 = 1232;

/// Probes how QUIC servers answer the first flight of a connection: one Initial per target, the answer
/// decrypted and classified with the kernel's time stamps, a polite close.
#[derive(Parser, Debug)]
#[command(
    name = "firstflight-prober",
    bin_name = "firstflight probe",
    version,
    about,
    after_help = "\
Example:
  firstflight probe --targets targets.csv --rate 500 --contact 'research@example.org' \\
    --blocklist blocklist.txt > probes.jsonl

Exit status: 0 done; 1 done, some lines of the list were rejected; 2 wrong use, nothing sent; 3 unreadable
input or records that cannot be written; 130 interrupted, what ended before is recorded."
)]
pub struct Options {
    /// Target list: CSV with the header ip,domain,port (port empty: 443; domain empty: no SNI); - for
    /// standard input
    #[arg(long, value_name = "FILE", required_unless_present = "feed")]
    pub targets: Option<PathBuf>,

    /// Take commands on standard input while running: probes at set times, groups of targets to pause
    /// (scanner/native/first_answer/README.md)
    #[arg(long, requires = "segments")]
    pub feed: bool,

    /// Write skipped planned probes to FILE, a line of JSON each
    #[arg(long, value_name = "FILE", requires = "feed")]
    pub skipped: Option<PathBuf>,

    #[command(flatten)]
    pub output: OutputArguments,

    /// New probes per second
    #[arg(long, value_name = "N", default_value_t = 500.0, value_parser = positive)]
    pub rate: f64,

    /// New probes per second to one address; 0 = no limit
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = rate)]
    pub per_address_rate: f64,

    /// New probes per second to one /24 (IPv6: /48); 0 = no limit
    #[arg(long, value_name = "N", default_value_t = 20.0, value_parser = rate)]
    pub per_prefix_rate: f64,

    /// Share the limits per address and prefix with other vantage points: this is number K of N (from 0);
    /// each has a prefix to itself for LENGTH seconds at a time, the last PAUSE of which nobody probes it
    #[arg(long, value_name = "K/N:LENGTH:PAUSE", value_parser = shared_limits)]
    pub turn: Option<SharedLimits>,

    /// How far this machine's clock is ahead of that of the other vantage points; turns are corrected by it
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        requires = "turn"
    )]
    pub clock_offset_ms: i64,

    /// Seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub timeout: f64,

    /// Milliseconds to wait for more after the ServerHello
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = milliseconds())]
    pub settle_ms: u32,

    /// Milliseconds during which datagrams that come after a probe's end are counted
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = milliseconds())]
    pub linger_ms: u32,

    /// Connections tried per target: a timeout leads to the next one
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub attempts: u8,

    /// UDP payload of the Initial (default 1252 on IPv4, 1232 on IPv6)
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1200..=1472))]
    pub initial_size: Option<u16>,

    /// Source address (repeatable; default: what the routing table says)
    #[arg(long, value_name = "IP")]
    pub source: Vec<IpAddr>,

    /// Source ports, bound for the whole run (default: 16 free ones from 61000 on)
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub ports: Option<(u16, u16)>,

    /// Addresses never to contact: ZMap's format, an address or network per line, # comments (repeatable)
    #[arg(long, value_name = "FILE")]
    pub blocklist: Vec<PathBuf>,

    /// Names (with their subdomains), addresses and networks whose owners opted out (repeatable)
    #[arg(long, value_name = "FILE")]
    pub optout: Vec<PathBuf>,

    /// How owners of probed servers reach you; sent as the reason phrase of every close
    #[arg(long, value_name = "TEXT", value_parser = contact)]
    pub contact: Option<String>,

    /// Network that may be probed without contact (repeatable); only inside loopback, RFC 1918, fc00::/7,
    /// 198.18.0.0/15, 2001:db8::/32
    #[arg(long, value_name = "CIDR")]
    pub allow_net: Vec<String>,

    /// Check lists and settings, report what would be done, send nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Seed of the random order (default: random, written to the summary)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Key of the connection IDs, 32 hex digits (default: random)
    #[arg(long, value_name = "HEX", value_parser = parse_key)]
    pub cid_key: Option<[u8; 16]>,
}

impl Options {
    /// UDP payload of Initials on IPv4, on IPv6.
    pub fn initial_sizes(&self) -> [u16; 2] {
        [SIZE_IPV4, SIZE_IPV6].map(|default| self.initial_size.unwrap_or(default))
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|n: &f64| n.is_finite() && *n <= 1e7)
        .ok_or_else(|| "not a number up to 10 million".into())
}

fn positive(text: &str) -> Result<f64, String> {
    number(text).and_then(|n| {
        if n > 0.0 {
            Ok(n)
        } else {
            Err("must be above 0".into())
        }
    })
}

fn rate(text: &str) -> Result<f64, String> {
    number(text).and_then(|n| {
        if n >= 0.0 {
            Ok(n)
        } else {
            Err("must not be below 0".into())
        }
    })
}

fn seconds(text: &str) -> Result<f64, String> {
    positive(text).and_then(|n| {
        if n <= 60.0 {
            Ok(n)
        } else {
            Err("must be at most 60 seconds".into())
        }
    })
}

/// Up to a minute.
fn milliseconds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=60_000)
}

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
        "" => Err("must say how to reach you".into()),
        text if text.chars().any(char::is_control) => Err("must be one line of text".into()),
        text if text.len() > 500 => Err("must not be longer than 500 bytes".into()),
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests;
