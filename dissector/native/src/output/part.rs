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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::testing::Folder;
    use super::*;

    #[test]
    fn a_part_is_named_kept_or_removed() {
        /// What is done with it, and what is there then.
        type Case = (fn(Part), &'static [&'static str]);
        const CASES: [Case; 3] = [
            (|part| part.finish().unwrap(), &["rows"]),
            (Part::keep, &["rows.part"]),
            (drop, &[]),
        ];
        for (end, names) in CASES {
            let folder = Folder::new();
            let (part, mut file) = Part::create(&folder.0.join("rows")).unwrap();
            file.write_all(b"text").unwrap();
            assert_eq!(folder.names(), ["rows.part"]);
            end(part);
            assert_eq!(folder.names(), names);
            if let Some(name) = names.first() {
                assert_eq!(folder.text(name), "text");
            }
        }
    }

    #[test]
    fn what_cannot_be_created_or_named_is_an_error() {
        let folder = Folder::new();
        assert!(Part::create(&folder.0.join("no/rows")).is_err());
        let (part, _file) = Part::create(&folder.0.join("rows")).unwrap();
        std::fs::remove_file(folder.0.join("rows.part")).unwrap();
        assert!(part.finish().is_err());
    }
}
