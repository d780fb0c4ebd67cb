//! Record kinds and formats.

use clap::ValueEnum;
use firstflight_records::{Column, Record, Style};

use super::rows::pacing::PacingRow;
use super::rows::quic_ack::QuicAckRow;
use super::rows::quic_connection::ConnectionRow;
use super::rows::quic_packet::QuicPacketRow;
use super::rows::tcp_flow::TcpFlowRow;
use super::rows::tcp_packet::TcpPacketRow;

/// Record kinds, as in schemas/records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    #[value(name = "quic_connection")]
    QuicConnection,
    #[value(name = "quic_packet")]
    QuicPacket,
    #[value(name = "quic_ack")]
    QuicAck,
    #[value(name = "tcp_flow")]
    TcpFlow,
    #[value(name = "tcp_packet")]
    TcpPacket,
    #[value(name = "pacing")]
    Pacing,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::QuicConnection => "quic_connection",
            Kind::QuicPacket => "quic_packet",
            Kind::QuicAck => "quic_ack",
            Kind::TcpFlow => "tcp_flow",
            Kind::TcpPacket => "tcp_packet",
            Kind::Pacing => "pacing",
        }
    }

    /// The columns of the kind's rows, in order.
    pub fn columns(self) -> Vec<Column> {
        match self {
            Kind::QuicConnection => ConnectionRow::columns(),
            Kind::QuicPacket => QuicPacketRow::columns(),
            Kind::QuicAck => QuicAckRow::columns(),
            Kind::TcpFlow => TcpFlowRow::columns(),
            Kind::TcpPacket => TcpPacketRow::columns(),
            Kind::Pacing => PacingRow::columns(),
        }
    }
}

/// Formats of record files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Jsonl,
    Parquet,
}

impl Format {
    /// The extension of files in this format.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl",
            Format::Parquet => "parquet",
        }
    }

    /// The style of text in files of this format.
    pub fn style(self) -> Style {
        match self {
            Format::Jsonl => Style::Json,
            Format::Parquet => Style::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for kind in Kind::value_variants() {
            let value = kind.to_possible_value().unwrap();
            assert_eq!(value.get_name(), kind.name());
        }
    }

    #[test]
    fn files_have_the_extension_of_their_format() {
        let extensions = [Format::Jsonl, Format::Parquet].map(Format::extension);
        assert_eq!(extensions, ["jsonl", "parquet"]);
    }
}
