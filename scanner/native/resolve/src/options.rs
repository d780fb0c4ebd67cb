//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Parser;
use firstflight_core::records::OutputArguments;

use crate::resolvers::Named;
use crate::wire::types::QType;

/// Questions per second to a resolver of others, unless --rate says otherwise.
pub const RATE: f64 = 200.0;

/// Most processes that divide the names of a vantage point.
const MOST_SHARDS: i64 = 64;

/// Asks resolvers for addresses and HTTPS records of names, or for other types: one row per record of an
/// answer, one row with the status for an answer without.
#[derive(Parser, Debug)]
#[command(
    name = "firstflight-resolve",
    bin_name = "firstflight resolve",
    version,
    about,
    after_help = "\
Example:
  firstflight resolve --names names.txt --resolver 192.0.2.53 --types A,AAAA,HTTPS > answers.jsonl

Exit status: 0 done (a timeout is a result); 1 done, some lines of the list were rejected; 2 wrong use,
nothing sent; 3 unreadable input, resolvers that do not answer, or records that cannot be written; 130
interrupted, names that ended before are recorded."
)]
pub struct Options {
    /// Names, one per line; - for standard input
    #[arg(long, value_name = "FILE")]
    pub names: PathBuf,

    /// Resolver to ask (repeatable): IP, IP:PORT or IP#PORT, with ,weight=N for its share of the questions
    /// (default: the first of /etc/resolv.conf)
    #[arg(long, value_name = "RESOLVER", value_parser = Named::parse)]
    pub resolver: Vec<Named>,

    /// Types to ask for
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

    /// Questions per second to each resolver; 0 = no limit (default: 200, no limit to one that is named and in
    /// a loopback or private network)
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,

    /// This process is one of N that divide the names: it has 1/N of the rate
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=MOST_SHARDS)
    )]
    pub shards: u32,

    /// Most questions in flight, at least those of one name
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

    /// Attempts per question
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub attempts: u8,

    /// Ask for names in lower case instead of a case chosen at random
    #[arg(long)]
    pub lower_case: bool,

    /// Check whether a resolver answers at all after so many questions in a row without an answer; if none
    /// does, end
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub silence: u32,

    /// Addresses never to contact: ZMap's format, an address or network per line, # comments (repeatable)
    #[arg(long, value_name = "FILE")]
    pub blocklist: Vec<PathBuf>,

    /// Names, addresses and networks whose owners opted out (repeatable): no resolver there is asked; names
    /// are resolved, since only the resolver is contacted
    #[arg(long, value_name = "FILE")]
    pub optout: Vec<PathBuf>,

    /// How to reach you; noted in the summary
    #[arg(long, value_name = "TEXT")]
    pub contact: Option<String>,

    /// Checked, as other commands do; a resolver that is named needs none (repeatable)
    #[arg(long, value_name = "CIDR")]
    pub allow_net: Vec<String>,

    /// Check lists and settings, report what would be done, send nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl Options {
    /// The types, each once, in the order of the options.
    pub fn distinct_types(&self) -> Vec<QType> {
        let mut types = Vec::new();
        for qtype in &self.types {
            if !types.contains(qtype) {
                types.push(*qtype);
            }
        }
        types
    }

    /// Questions per second of this process to a resolver at `ip`; `None`: no limit. One that nobody named
    /// counts as one of others: behind a stub or a router that /etc/resolv.conf has is a provider's.
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

fn qtype(text: &str) -> Result<QType, String> {
    let names = QType::ALL.map(QType::name).join(", ");
    QType::from_name(text.trim()).ok_or_else(|| format!("is none of {names}"))
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
            (&["--names", "n", "--types", "A,ANY"], "is none of A, AAAA"),
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
            // A resolver of /etc/resolv.conf: the second one as a router's, or a stub.
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
