//! Rows of record kinds, as JSON lines or Parquet.

mod cells;
mod deferred;
mod jsonl;
mod kind;
mod outputs;
pub mod parameters;
mod parquet_file;
mod part;
pub mod rows;
mod stamps;
mod summary;
#[cfg(test)]
mod testing;
mod text;
mod write_buffer;

pub use kind::{Format, Kind};
pub use outputs::{Destination, OutputError, Outputs};
pub use stamps::{Stamp, Stamps, Twice};
