//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use firstflight_core::arguments::{
    SendingArguments, VERSION_OPTION, milliseconds, positive, seconds,
};
use firstflight_core::records::OutputArguments;

use crate::ecn::Mark;
use crate::sizes::{self, Sizes};

/// Probes how QUIC servers answer the first flight of a connection. Sends one Initial per target, decrypts and
/// classifies the answer with the kernel's timestamps, and closes the connection.
#[derive(Parser, Debug)]
#[command(
    name = "firstflight-prober",
    bin_name = "firstflight probe",
    version,
    about,
    after_help = "\
Example:
  firstflight probe www.example.org --contact 'research@example.org'
  firstflight probe --targets targets.csv --rate 500 --contact 'research@example.org' \\
    --blocklist blocklist.txt > probes.jsonl

Exit status: 0 done; 1 done, some lines of the list were rejected; 2 wrong use, nothing sent; 3 unreadable \
input or records that cannot be written; 130 interrupted, finished probes are recorded."
)]
pub struct Options {
    /// Target list: CSV with the header ip,domain,port (port empty: 443; domain empty: no SNI), or names to resolve, one
    /// per line or in a column domain without a column ip; - for standard input
    #[arg(long, value_name = "FILE", required_unless_present_any = ["names", "feed"])]
    pub targets: Option<PathBuf>,

    /// Read commands from standard input while running: probes at set times, groups of targets to pause
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

    #[command(flatten)]
    pub sending: SendingArguments,

    /// Seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub timeout: f64,

    /// Milliseconds to wait for more datagrams after the ServerHello
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = milliseconds())]
    pub settle_ms: u32,

    /// Milliseconds after the end of a probe during which late datagrams are counted
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = milliseconds())]
    pub linger_ms: u32,

    /// Maximum number of connections per target: after a timeout, the next one is tried
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub attempts: u8,

    /// UDP payload of the Initial (default 1252 on IPv4, 1232 on IPv6). With several sizes, as 1200-1472/68
    /// (FIRST-LAST/STEP) or 1200,1252,1472, each target is probed once per size
    #[arg(long, value_name = "BYTES", value_parser = sizes::parse)]
    pub initial_size: Option<Sizes>,

    /// After an answer, send nothing for SECONDS, record the server's retransmissions, then close. Only for small
    /// samples of at most 1,000 probes (docs/ethics.md)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub listen: Option<f64>,

    /// Mark datagrams with ECT(0) or ECT(1), and record the ECN marks and counts in the answer
    #[arg(long, value_enum, value_name = "MARK")]
    pub ecn: Option<Mark>,

    /// QUIC version of the Initial: --version 1, or --version reserved to get a Version Negotiation packet (RFC 9000
    /// 15). Without a value, --version prints the program's version
    #[arg(
        long = VERSION_OPTION,
        value_enum,
        value_name = "VERSION",
        default_value_t = Offered::V1
    )]
    pub offered: Offered,
}

/// The QUIC version of Initials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Offered {
    #[value(name = "1")]
    V1,
    Reserved,
}

impl Options {
    /// Returns the sizes of Initials.
    pub fn sizes(&self) -> Sizes {
        self.initial_size.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
