//! Rows of record kinds, as JSON lines or Parquet.

mod cells;
mod deferred;
mod jsonl;
mod kind;
mod outputs;
pub mod pacing;
pub mod parameters;
mod parquet_file;
mod part;
pub mod quic_ack;
pub mod quic_connection;
pub mod quic_packet;
mod stamps;
mod summary;
pub mod tcp_flow;
pub mod tcp_packet;
#[cfg(test)]
mod testing;
mod text;
mod write_buffer;

pub use kind::{Format, Kind};
pub use outputs::{Destination, OutputError, Outputs};
pub use stamps::{Stamp, Stamps, Twice};
