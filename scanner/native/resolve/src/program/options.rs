//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Parser;
use firstflight_core::host_name::fault_of_name;
use firstflight_core::records::OutputArguments;

use crate::questions::resolvers::Named;
use crate::wire::types::QType;

/// Default rate to other operators' resolvers, in questions per second (`--rate`).
pub const RATE: f64 = 200.0;

/// Maximum number of processes that share a vantage point's names.
const MOST_SHARDS: i64 = 64;

/// Queries resolvers for addresses, HTTPS records or other types of names. Writes one row per record of an answer,
/// and one row with the status for an answer without records.
#[derive(Parser, Debug)]
#[command(
    name = "firstflight-resolve",
    bin_name = "firstflight resolve",
    version,
    about,
    after_help = "\
Example:
  firstflight resolve www.example.org
  firstflight resolve --names names.txt --resolver 192.0.2.53 --types A,AAAA,HTTPS > answers.jsonl

Exit status: 0 done (a timeout is a result); 1 done, some lines of the list were rejected; 2 wrong use, \
nothing sent; 3 unreadable input, resolvers that do not answer, or records that cannot be written; 130 \
interrupted, finished names are recorded."
)]
pub struct Options {
    /// Names to resolve, instead of a list
    #[arg(value_name = "NAME", value_parser = host_name, conflicts_with_all = ["names", "resume"])]
    pub name: Vec<String>,

    /// List of names, one per line; - for standard input
    #[arg(long, value_name = "FILE", required_unless_present = "name")]
    pub names: Option<PathBuf>,

    /// Resolver to query (repeatable): IP, IP:PORT or IP#PORT. Append ,weight=N for a larger share of the queries
    /// (default: the first of /etc/resolv.conf)
    #[arg(long, value_name = "RESOLVER", value_parser = Named::parse)]
    pub resolver: Vec<Named>,

    /// Types to query
    #[arg(
        long,
        value_name = "TYPE,...",
        value_delimiter = ',',
        value_parser = qtype,
        default_value = "A,AAAA,HTTPS"
    )]
    pub types: Vec<QType>,

    #[command(flatten)]
    pub output: OutputArguments,

    /// Queries per second to each resolver; 0 = no limit (default: 200; no limit for a --resolver in a loopback
    /// or private network)
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,

    /// Number of processes that share the names; this process uses 1/N of the rate
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=MOST_SHARDS)
    )]
    pub shards: u32,

    /// Maximum number of queries in flight; the queries for a single name are always allowed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub concurrency: u32,

    /// Seconds to wait for an answer, per attempt
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub timeout: f64,

    /// Attempts per query
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub attempts: u8,

    /// Send names in lower case instead of random upper and lower case
    #[arg(long)]
    pub lower_case: bool,

    /// Stop the run after this many consecutive queries without an answer, if a check shows that no resolver answers
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub silence: u32,

    /// Addresses never to contact: ZMap's format, an address or network per line, # comments (repeatable)
    #[arg(long, value_name = "FILE")]
    pub blocklist: Vec<PathBuf>,

    /// Opt-out list of names, addresses and networks (repeatable): resolvers on it are never contacted; names on it
    /// are still resolved, because only the resolver is contacted
    #[arg(long, value_name = "FILE")]
    pub optout: Vec<PathBuf>,

    /// How to reach you; noted in the summary
    #[arg(long, value_name = "TEXT")]
    pub contact: Option<String>,

    /// Network that may be contacted without --contact, as in other commands; not needed for a --resolver (repeatable)
    #[arg(long, value_name = "CIDR")]
    pub allow_net: Vec<String>,

    /// Check lists and settings, report the plan, send nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl Options {
    /// Returns the distinct types in the order of the options.
    pub fn distinct_types(&self) -> Vec<QType> {
        let mut types = Vec::new();
        for qtype in &self.types {
            if !types.contains(qtype) {
                types.push(*qtype);
            }
        }
        types
    }

    /// Returns the rate of this process to a resolver at `ip`, in questions per second; `None`: no limit. Without
    /// `--resolver`, even a private address counts as another operator's resolver: a stub resolver or router from
    /// /etc/resolv.conf forwards to a provider's resolver.
    pub fn rate_to(&self, ip: IpAddr) -> Option<f64> {
        let is_ours = !self.resolver.is_empty() && firstflight_core::policy::is_ours(ip);
        let together = match self.rate {
            Some(0.0) => None,
            Some(rate) => Some(rate),
            None => (!is_ours).then_some(RATE),
        };
        together.map(|rate| rate / f64::from(self.shards))
    }
}

fn host_name(text: &str) -> Result<String, String> {
    fault_of_name(text).map_or_else(|| Ok(text.to_owned()), |fault| Err(fault.to_owned()))
}

fn qtype(text: &str) -> Result<QType, String> {
    let names = QType::ALL.map(QType::name).join(", ");
    QType::from_name(text.trim()).ok_or_else(|| format!("is not one of {names}"))
}

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let parsed = text
        .parse()
        .ok()
        .filter(|n: &f64| *n >= least && *n <= most);
    parsed.ok_or_else(|| format!("not a number from {least} to {most}"))
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1e7)
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.001, 300.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from([&["firstflight-resolve"], arguments].concat())
    }

    #[test]
    fn values_are_checked() {
        use clap::CommandFactory;
        Options::command().debug_assert();
        for (arguments, expected) in [
            (
                &["--resolver", "192.0.2.1"][..],
                "were not provided: --names <FILE>",
            ),
            (&["--names", "n", "--rate=-1"], "not a number from 0"),
            (
                &["--names", "n", "--types", "A,ANY"],
                "is not one of A, AAAA",
            ),
            (
                &["--names", "n", "--resolver", "dns.test"],
                "write it like 192.0.2.53",
            ),
            (
                &["--names", "n", "--timeout", "nan"],
                "not a number from 0.001 to 300",
            ),
            (&["--names", "n", "--resume"], "--segments"),
        ] {
            let error = parsed(arguments).unwrap_err();
            let sentence = firstflight_usage::sentence(&error, "firstflight resolve").unwrap();
            assert!(sentence.contains(expected), "{sentence}");
        }
    }

    #[test]
    fn defaults_and_rates() {
        let options = parsed(&["--names", "n"]).unwrap();
        assert_eq!(options.distinct_types(), QType::DEFAULT);
        let foreign: IpAddr = "9.9.9.9".parse().unwrap();
        let own: IpAddr = "192.168.1.1".parse().unwrap();
        let named = ["--resolver", "9.9.9.9", "--resolver", "192.168.1.1"];
        for (arguments, expected) in [
            (&named[..], (Some(RATE), None)),
            // A resolver from /etc/resolv.conf. The second address is a router's or a stub resolver's.
            (&[], (Some(RATE), Some(RATE))),
            (&["--rate", "50"], (Some(50.0), Some(50.0))),
            (&["--rate", "0"], (None, None)),
            (
                &[&named[..], &["--rate", "50"]].concat(),
                (Some(50.0), Some(50.0)),
            ),
            (&[&named[..], &["--rate", "0"]].concat(), (None, None)),
            (
                &[&named[..], &["--shards", "4"]].concat(),
                (Some(RATE / 4.0), None),
            ),
            (&["--shards", "4"], (Some(RATE / 4.0), Some(RATE / 4.0))),
        ] {
            let options = parsed(&[&["--names", "n"], arguments].concat()).unwrap();
            let rates = (options.rate_to(foreign), options.rate_to(own));
            assert_eq!(rates, expected, "{arguments:?}");
        }
        let options = parsed(&["--names", "n", "--types", "mx,A,MX"]).unwrap();
        assert_eq!(options.distinct_types(), [QType::Mx, QType::A]);
    }
}
