//! Permits only one engine at a time per folder of segments.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use firstflight_usage::tell;

use crate::Failure;

/// Locks a folder by flock(2). The kernel releases the lock when the process exits, for whatever reason.
///
/// An engine can outlive the program that started it until its probes in flight are finished. A second engine
/// on the same folder would contact the same targets at the same time, and use the same segment numbers.
#[must_use = "it holds the lock as long as it lives"]
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "held, not used")] File);

impl FolderLock {
    /// Locks `dir`, which is created if necessary. Waits for an engine that holds the lock, and reports this
    /// once. A signal that terminates a program also terminates the wait, unless a handler for it is already
    /// set.
    pub fn take(dir: &Path) -> Result<FolderLock, Failure> {
        let shown = dir.display();
        let wrong = |e: io::Error| {
            Failure::Usage(format!(
                "--segments {shown}: {e}; name a folder to write to"
            ))
        };
        fs::create_dir_all(dir).map_err(wrong)?;
        // Locks the folder itself, because readers of the folder would see a lock file.
        let folder = File::open(dir).map_err(wrong)?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                tell!(
                    "--segments {shown}: an earlier engine still writes there; waiting until it exits"
                );
                folder.lock().map_err(wrong)?;
            }
            // A file system without locks for folders (NFS). An engine works there without the lock.
            Err(TryLockError::Error(_)) => {}
        }
        Ok(FolderLock(folder))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_folder_has_one_holder_at_a_time() {
        let dir = std::env::temp_dir().join(format!("folder-lock-{}", std::process::id()));
        let first = FolderLock::take(&dir).unwrap();
        let is_free = AtomicBool::new(false);
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let _lock = FolderLock::take(&dir).unwrap();
                is_free.load(Ordering::SeqCst)
            });
            // Gives the second engine time to take the lock wrongly. With too little time, the test misses a
            // fault.
            thread::sleep(Duration::from_millis(200));
            is_free.store(true, Ordering::SeqCst);
            drop(first);
            assert!(second.join().unwrap());
        });
        assert_eq!(
            fs::read_dir(&dir).unwrap().count(),
            0,
            "nothing is left in it"
        );
        fs::remove_dir(&dir).unwrap();
    }

    #[test]
    fn what_is_no_folder_is_wrong_use() {
        let file = std::env::temp_dir().join(format!("folder-lock-file-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let failure = FolderLock::take(&file).unwrap_err();
        fs::remove_file(&file).unwrap();
        assert!(matches!(&failure, Failure::Usage(m) if m.contains("name a folder to write to")));
    }
}
