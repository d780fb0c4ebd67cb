//! JSON files that are replaced as a whole. Their paths are checked before anything is sent.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::Failure;

/// Checks that the file of `option` can be written to `path`, before anything is sent.
pub fn check_writable(option: &str, path: &Path) -> Result<(), Failure> {
    if is_special(path) {
        return Ok(());
    }
    let part = path.with_added_extension("part");
    fs::File::create(&part)
        .and_then(|_| fs::remove_file(&part))
        .map_err(|e| {
            Failure::Usage(format!(
                "{option} {}: {e}; name a file that can be written",
                path.display()
            ))
        })
}

/// Returns whether `path` is a device or a pipe, which must not be replaced by a file.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Writes to a temporary file and renames it. Writes directly to a device or a pipe.
pub fn replace(content: &impl Serialize, path: &Path) -> io::Result<()> {
    let text = serde_json::to_string_pretty(content)? + "\n";
    if is_special(path) {
        return fs::write(path, text);
    }
    let part = path.with_added_extension("part");
    let replaced = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    replaced.inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}
