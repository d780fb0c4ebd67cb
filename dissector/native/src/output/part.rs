//! Files that get their final name when they are complete.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is being written. It is removed if it is dropped before it is complete: a file cut by a full disk is
/// useless and occupies space.
pub(super) struct Part {
    path: PathBuf,
    whole: PathBuf,
    is_ours: bool,
}

impl Part {
    /// Creates the file under the name of `whole` with `.part` appended.
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

    /// Renames the file to the final name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        std::fs::rename(&self.path, &self.whole)?;
        self.is_ours = false;
        Ok(())
    }

    /// Keeps the file under the current name.
    pub(super) fn keep(mut self) {
        self.is_ours = false;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.is_ours {
            // If it cannot be removed, the error that caused this is sufficient.
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
        /// An action, and the files that exist afterwards.
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
