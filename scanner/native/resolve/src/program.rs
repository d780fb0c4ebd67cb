//! The program around the engine, from the command line to the report.

mod options;
mod report;
mod setup;
mod summary;

pub use options::Options;
pub use setup::{PROGRAM, run};
