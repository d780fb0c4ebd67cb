//! The command line.

use std::path::PathBuf;

use clap::Parser;
use firstflight_wire::ConnectionId;

use crate::output::{Destination, Format, Kind};

/// Turns captures into records.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "firstflight-dissect",
    bin_name = "firstflight dissect",
    version,
    after_help = "Example: firstflight dissect probe.pcap --format jsonl | jq -c '[.sni, .first_answer, .ack_to_sh_us]'"
)]
pub struct Args {
    /// Captures in pcap or pcapng format; - is standard input
    #[arg(required = true, value_name = "CAPTURE")]
    pub captures: Vec<PathBuf>,

    /// TLS key log (SSLKEYLOGFILE, repeatable); NAME.keys beside NAME.pcap is taken unasked
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

    /// Look for QUIC only in UDP from or to this port (repeatable; default: every port with an Initial that opens)
    #[arg(long, value_name = "PORT")]
    pub quic_port: Vec<u16>,

    /// Take only connections with this source or original destination connection ID of the client (hex, repeatable)
    #[arg(long, value_name = "HEX", value_parser = parse_cid)]
    pub cid: Vec<ConnectionId>,

    /// How long after a ClientHello an answer counts
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    pub answer_window_ms: u32,

    /// How long after a ServerHello the rest of the first answer counts
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub settle_ms: u32,

    /// Gap between packets that ends a train (pacing)
    #[arg(long, value_name = "MS", default_value_t = 0.1, value_parser = parse_gap)]
    pub train_gap: f64,

    /// Silence, by the capture's clock, after which a connection is written out
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub idle_s: u32,

    /// Live connections to hold at most; above it those silent for longest are written out
    #[arg(long, value_name = "N", default_value_t = 8_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
}

impl Args {
    /// Which rows go where.
    pub fn destination(&self) -> Destination {
        Destination {
            kinds: self.kind.clone(),
            format: self.format,
            folder: self.out.clone(),
        }
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

    #[test]
    fn connection_ids_are_hex() {
        assert_eq!(parse_cid("0102").map(|c| c.to_string()), Ok("0102".into()));
        assert!(parse_cid("012").is_err() && parse_cid("xy").is_err() && parse_cid("").is_err());
    }
}
