//! Unnamed files in the folder for temporary files. The system removes them when they are closed.

use std::fs::{File, OpenOptions};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Creates a file for writing and reading.
pub fn nameless() -> io::Result<File> {
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("firstflight-dissect.{}.{n}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
