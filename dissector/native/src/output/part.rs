//! Files that get their name when they are whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is being written. It is removed when it is dropped before: what a full disk cut is of no use
/// to anybody, and keeps the disk full.
pub(super) struct Part {
    path: PathBuf,
    whole: PathBuf,
    is_ours: bool,
}

impl Part {
    /// Creates `whole` with `.part` behind its name.
    pub(super) fn create(whole: &Path) -> io::Result<(Part, File)> {
        let mut path = whole.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        let file = File::create(&path)?;
        let part = Part {
            path,
            whole: whole.to_owned(),
            is_ours: true,
        };
        Ok((part, file))
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        std::fs::rename(&self.path, &self.whole)?;
        self.is_ours = false;
        Ok(())
    }

    /// Leaves the file as it is.
    pub(super) fn keep(mut self) {
        self.is_ours = false;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.is_ours {
            // If it cannot be removed, the error that led here is enough.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
