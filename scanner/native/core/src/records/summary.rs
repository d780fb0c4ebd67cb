//! The summary file of a run: checked before anything is sent, written in one step.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::Failure;

/// Checks that a summary can be written to `path`, before anything is sent.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    if is_special(path) {
        return Ok(());
    }
    let part = path.with_added_extension("part");
    fs::File::create(&part)
        .and_then(|_| fs::remove_file(&part))
        .map_err(|e| {
            Failure::Usage(format!(
                "--summary {}: {e}; name a file that can be written",
                path.display()
            ))
        })
}

/// Returns whether `path` is a device or a pipe, which no file must replace.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Writes the summary to a temporary file and renames it.
pub fn write(summary: &impl Serialize, path: &Path) -> Result<(), Failure> {
    let part = path.with_added_extension("part");
    let text = serde_json::to_string_pretty(summary).map_err(std::io::Error::other);
    let written = text.and_then(|text| {
        if is_special(path) {
            return fs::write(path, text + "\n");
        }
        fs::write(&part, text + "\n")?;
        fs::rename(&part, path)
    });
    written.map_err(|e| {
        let _ = fs::remove_file(&part);
        Failure::Output(format!(
            "the summary {} cannot be written: {e}; the records are complete",
            path.display()
        ))
    })
}
