//! The output of a run: records, and reports on the progress.

pub mod progress;
pub mod records;
mod whole_file;
