//! Planned probes that were not sent, and the reasons. Each is a JSON line that is written immediately.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::Failure;

/// Why a planned probe was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It could have left only after its grace had passed.
    Late,
    /// The limit of the address or prefix was used up.
    Limit,
    /// The run was at its rate, or at its maximum of probes in flight.
    Busy,
    /// Its group is paused.
    Paused,
    /// The run was stopped.
    Stopped,
    /// The address requires a contact, but the run has no contact.
    Contact,
}

impl Reason {
    /// Returns the name of the reason in the file.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Late => "late",
            Reason::Limit => "limit",
            Reason::Busy => "busy",
            Reason::Paused => "paused",
            Reason::Stopped => "stopped",
            Reason::Contact => "contact",
        }
    }
}

/// The file of skipped probes.
pub struct Skips {
    file: Option<File>,
    failed: Option<Failure>,
}

impl Skips {
    /// Opens `path` for appending; `None`: skipped probes are only counted.
    pub fn open(path: Option<&Path>) -> Result<Skips, Failure> {
        let open = |path: &Path| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|e| {
                    Failure::Usage(format!(
                        "--skipped {}: {e}; name a file that can be written",
                        path.display()
                    ))
                })
        };
        Ok(Skips {
            file: path.map(open).transpose()?,
            failed: None,
        })
    }

    /// Writes a line about planned probe number `slot`. `late`: time since the planned time, in ns.
    pub fn note(&mut self, slot: u32, reason: Reason, late: u64) {
        let Some(file) = &mut self.file else {
            return;
        };
        let line = format!(
            "{{\"slot\": {slot}, \"reason\": \"{}\", \"late_us\": {}}}\n",
            reason.name(),
            late / 1000
        );
        // A single write call, so that a reader never sees half a line.
        if let Err(e) = file.write_all(line.as_bytes()) {
            self.failed.get_or_insert(Failure::Output(format!(
                "skipped probes cannot be written: {e}; free some space"
            )));
        }
    }

    /// Returns the first write error, if any.
    pub fn failure(&self) -> Option<Failure> {
        self.failed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_a_line_behind_those_of_before() {
        let path = std::env::temp_dir().join(format!("skips-{}", std::process::id()));
        std::fs::write(&path, "before\n").unwrap();
        let mut skips = Skips::open(Some(&path)).unwrap();
        let reasons = [
            (Reason::Late, "late"),
            (Reason::Limit, "limit"),
            (Reason::Busy, "busy"),
            (Reason::Paused, "paused"),
            (Reason::Stopped, "stopped"),
            (Reason::Contact, "contact"),
        ];
        let mut expected = "before\n".to_owned();
        for (slot, (reason, name)) in (7..).zip(reasons) {
            skips.note(slot, reason, 2999);
            expected += &format!("{{\"slot\": {slot}, \"reason\": \"{name}\", \"late_us\": 2}}\n");
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((text, skips.failure()), (expected, None));
    }

    #[test]
    fn the_first_failure_is_kept() {
        let mut skips = Skips::open(Some(Path::new("/dev/full"))).unwrap();
        assert_eq!(skips.failure(), None);
        skips.note(7, Reason::Late, 0);
        assert!(matches!(skips.failure(), Some(Failure::Output(_))));
        let missing = Path::new("/nosuch/folder/file");
        assert!(matches!(
            Skips::open(Some(missing)).err(),
            Some(Failure::Usage(_))
        ));
    }
}
