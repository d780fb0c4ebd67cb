//! A run's summary file.

use std::path::Path;

use serde::Serialize;

use crate::Failure;
use crate::output::whole_file::replace;

/// Writes the summary file as a whole.
pub fn write(summary: &impl Serialize, path: &Path) -> Result<(), Failure> {
    replace(summary, path).map_err(|e| {
        Failure::Output(format!(
            "the summary {} cannot be written: {e}; the records are complete",
            path.display()
        ))
    })
}
