//! PlannedProbes that were not probed, and why: a line of JSON each, on disk as soon as it is known.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::Failure;

/// Why a slot was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its time had passed by more than its grace when it could have left.
    Late,
    /// Its address or prefix had its share.
    Limit,
    /// The rate of the run, or the number of probes in flight.
    Busy,
    /// Its group is held back.
    Paused,
    /// The run was stopped.
    Stopped,
    /// The address needs a contact, and none was given.
    Contact,
}

impl Reason {
    /// The word for it in records.
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

/// The file.
pub struct Skips {
    file: Option<File>,
    failed: Option<Failure>,
}

impl Skips {
    /// Opens `path` to append to it; `None`: skipped slots are only counted.
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

    /// Notes a slot; `late`: how long after its planned time this is, in ns.
    pub fn note(&mut self, slot: u32, reason: Reason, late: u64) {
        let Some(file) = &mut self.file else {
            return;
        };
        let line = format!(
            "{{\"slot\": {slot}, \"reason\": \"{}\", \"late_us\": {}}}\n",
            reason.name(),
            late / 1000
        );
        // One write: a reader never sees half a line of a run that goes on.
        if let Err(e) = file.write_all(line.as_bytes()) {
            self.failed.get_or_insert(Failure::Output(format!(
                "skipped slots cannot be written down: {e}; free some space"
            )));
        }
    }

    /// Why no more can be written, if so.
    pub fn failure(&self) -> Option<Failure> {
        self.failed.clone()
    }
}
