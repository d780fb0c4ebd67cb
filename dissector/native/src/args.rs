//! The command line.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Parser;
use firstflight_wire::ConnectionId;

use crate::input;
use crate::output::{Destination, Format, Kind, Stamp, Stamps};
use crate::trim::Copy;

/// Turns captures into records.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "firstflight-dissect",
    bin_name = "firstflight dissect",
    version,
    after_help = "Example: firstflight dissect probe.pcap --format jsonl \
                  | jq -c '[.sni, .first_answer, .ack_to_sh_us]'"
)]
pub struct Args {
    /// Captures in pcap or pcapng format; - is standard input
    #[arg(required = true, value_name = "CAPTURE")]
    pub captures: Vec<PathBuf>,

    /// TLS key log (SSLKEYLOGFILE, repeatable); NAME.keys next to NAME.pcap is always read
    #[arg(long, value_name = "FILE")]
    pub keys: Vec<PathBuf>,

    /// Record kinds to write
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "K,...",
        default_value = "quic_connection,tcp_flow"
    )]
    pub kind: Vec<Kind>,

    /// jsonl to standard output, or either format into --out
    #[arg(long, default_value = "jsonl")]
    pub format: Format,

    /// Folder for KIND.jsonl or KIND.parquet
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Provenance of the rows of quic_connection and quic_ack: run, vantage, repetition, tool_version (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = Stamp::parse)]
    pub stamp: Vec<Stamp>,

    /// Name in the column source_file, one for each capture in order (default: the path of the capture)
    #[arg(long, value_name = "NAME")]
    pub source_name: Vec<String>,

    /// Write counts of the written rows to this file (JSON)
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,

    /// Write trimmed copies of the captures to this folder. The copies lack the content of Handshake, 0-RTT and 1-RTT
    /// packets that no key decrypts, and the padding of Initials (--restore adds the padding again). Lengths and times
    /// are kept. The folder must not contain files with these names
    #[arg(long, value_name = "DIR")]
    pub trim: Option<PathBuf>,

    /// Do not trim connections whose client has one of these source connection IDs (FILE: one per line, hex)
    #[arg(long, value_name = "FILE", requires = "trim")]
    pub trim_except: Option<PathBuf>,

    /// Omit UDP datagrams that belong to no connection from trimmed copies; NAME.json counts them as `removed`
    #[arg(long, requires = "trim")]
    pub trim_others: bool,

    /// Only restore the padding of the capture: write a standard capture to standard output
    #[arg(long, conflicts_with_all = ["kind", "format", "out", "stamp", "source_name", "summary", "trim", "keys", "cid"])]
    pub restore: bool,

    /// Look for QUIC only in UDP from or to this port (repeatable; default: every port with an Initial that decrypts)
    #[arg(long, value_name = "PORT")]
    pub quic_port: Vec<u16>,

    /// Select only connections with this source or original destination connection ID of the client (hex, repeatable)
    #[arg(long, value_name = "HEX", value_parser = parse_cid)]
    pub cid: Vec<ConnectionId>,

    /// Time after a ClientHello within which an answer counts
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    pub answer_window_ms: u32,

    /// Time after a ServerHello within which the rest of the first answer counts
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub settle_ms: u32,

    /// Shortest gap between two trains of packets (pacing)
    #[arg(long, value_name = "MS", default_value_t = 0.1, value_parser = parse_gap)]
    pub train_gap: f64,

    /// Idle time in the capture after which a connection is written out
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub idle_s: u32,

    /// Maximum number of live connections; above it, the connections that are idle for longest are written out
    #[arg(long, value_name = "N", default_value_t = 8_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,

    /// Maximum number of live connections while some have been silent longer than a first answer may take (default:
    /// --max-connections)
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub max_decided: Option<u32>,
}

impl Args {
    /// The destination of the rows. `Err` names options that contradict each other.
    pub fn destination(&self) -> Result<Destination, String> {
        if self.format == Format::Parquet && self.out.is_none() {
            return Err("--format parquet needs --out DIR".into());
        }
        let is_stamped = |kind| [Kind::QuicConnection, Kind::QuicAck].contains(kind);
        if !self.stamp.is_empty() && !self.kind.iter().any(is_stamped) {
            return Err(
                "--stamp needs --kind quic_connection or quic_ack: no other kind has these columns"
                    .into(),
            );
        }
        Ok(Destination {
            kinds: self.kind.clone(),
            format: self.format,
            folder: self.out.clone(),
            stamps: Stamps::new(self.stamp.clone()).map_err(|twice| twice.to_string())?,
            summary: self.summary.clone(),
        })
    }

    /// The name of each capture in records, in order. `Err` if some captures have no name.
    pub fn source_names(&self) -> Result<Vec<String>, String> {
        match (self.source_name.len(), self.captures.len()) {
            (0, _) => Ok(self.captures.iter().map(|path| input::name(path)).collect()),
            (names, captures) if names == captures => Ok(self.source_name.clone()),
            (names, captures) => Err(format!(
                "--source-name is given {names} times for {captures} captures: give one for each, in order"
            )),
        }
    }
}

impl Args {
    /// The connection IDs in the file of `--trim-except`. `Err` describes a fault in the options of trimmed copies.
    pub fn kept_whole(&self) -> Result<HashSet<ConnectionId>, String> {
        if let Some(folder) = &self.trim {
            let mut names = HashSet::new();
            for path in &self.captures {
                let name = path.file_name().filter(|name| *name != "-");
                let shown = input::name(path);
                let name =
                    name.ok_or_else(|| format!("--trim needs captures in files, not {shown}"))?;
                if !names.insert(name) {
                    return Err(format!(
                        "--trim: two captures are called {}: trim them into different folders",
                        name.display()
                    ));
                }
                // In the capture's own folder, the copy would replace it.
                if let Some(taken) = Copy::taken(folder, name) {
                    return Err(format!(
                        "--trim: {} exists already: choose another folder",
                        taken.display()
                    ));
                }
            }
            if !(self.kind.iter())
                .any(|kind| [Kind::QuicConnection, Kind::QuicPacket].contains(kind))
            {
                return Err("--trim needs --kind quic_connection or quic_packet".into());
            }
        }
        let Some(path) = &self.trim_except else {
            return Ok(HashSet::new());
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        text.lines().map(parse_cid).collect()
    }
}

fn parse_gap(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|ms| (0.0..=1e9).contains(ms))
        .ok_or_else(|| format!("{text} is not a gap: expected milliseconds, such as 0.1"))
}

fn parse_cid(text: &str) -> Result<ConnectionId, String> {
    let wrong = || format!("{text} is not a connection ID: expected up to 40 hex digits");
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect();
    let digits = digits
        .filter(|d| !d.is_empty() && d.len().is_multiple_of(2))
        .ok_or_else(wrong)?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect();
    ConnectionId::new(&bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    fn parse(options: &[&str]) -> Args {
        Args::try_parse_from(["dissect", "a.pcap", "b.pcap"].iter().chain(options)).unwrap()
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for (options, expected) in [
            (
                &["--format", "parquet"][..],
                "--format parquet needs --out DIR",
            ),
            (
                &["--stamp", "run=r", "--kind", "pacing"],
                "--stamp needs --kind quic_connection or quic_ack: no other kind has these columns",
            ),
            (
                &["--stamp", "run=r", "--stamp", "run=r"],
                "--stamp run is given twice",
            ),
        ] {
            assert_eq!(parse(options).destination().unwrap_err(), expected);
        }
        assert!(
            parse(&["--stamp", "run=r", "--stamp", "vantage=v"])
                .destination()
                .is_ok()
        );
    }

    #[test]
    fn captures_are_named_in_order() {
        let names = |options| parse(options).source_names();
        assert_eq!(names(&[]).unwrap(), ["a.pcap", "b.pcap"]);
        let two = ["--source-name", "x", "--source-name", "y=z"];
        assert_eq!(names(&two).unwrap(), ["x", "y=z"]);
        assert_eq!(
            names(&two[..2]).unwrap_err(),
            "--source-name is given 1 times for 2 captures: give one for each, in order"
        );
    }

    #[test]
    fn trimmed_copies_need_captures_with_names_of_their_own() {
        let kept = |folder: &str, words: &[&str]| {
            Args::try_parse_from(["dissect", "--trim", folder].iter().chain(words))
                .unwrap()
                .kept_whole()
        };
        assert_eq!(kept("x", &["a.pcap", "b.pcap"]), Ok(HashSet::new()));
        for (folder, words, expected) in [
            ("x", &["-"][..], "--trim needs captures in files, not -"),
            (
                "x",
                &["a.pcap", "b/a.pcap"],
                "--trim: two captures are called a.pcap: trim them into different folders",
            ),
            (
                env!("CARGO_MANIFEST_DIR"),
                &["a.pcap", "b/Cargo.toml"],
                concat!(
                    "--trim: ",
                    env!("CARGO_MANIFEST_DIR"),
                    "/Cargo.toml exists already: choose another folder"
                ),
            ),
            (
                "x",
                &["a.pcap", "--kind", "pacing"],
                "--trim needs --kind quic_connection or quic_packet",
            ),
            (
                "x",
                &["a.pcap", "--trim-except", "/nowhere/x"],
                "/nowhere/x cannot be read: No such file or directory (os error 2)",
            ),
        ] {
            assert_eq!(kept(folder, words).unwrap_err(), expected);
        }
    }

    #[test]
    fn connection_ids_are_hex() {
        assert_eq!(parse_cid("0102").map(|c| c.to_string()), Ok("0102".into()));
        assert!(parse_cid("012").is_err() && parse_cid("xy").is_err() && parse_cid("").is_err());
    }
}
