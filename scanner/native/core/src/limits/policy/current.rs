//! Lists that can change during a run.
//!
//! A run's opt-out lists are read again when their files change; its block lists are not. The list of
//! the environment variable [`VARIABLE`] applies in addition. With `followed:FILE`, this list is a copy of
//! the centre's, which `firstflight optout follow` writes. It is trusted only while the centre confirms it;
//! `FILE.confirmed` contains the time of the last confirmation. An entry stays in force until the end of the
//! run, so that a half-written or removed file does not loosen the policy.
//!
//! `firstflight/egress/current.py` applies the same rules to programs in Python.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use firstflight_usage::tell;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use super::listed::{Kind, Listed};
use crate::Failure;
use crate::clock::{Mono, SECOND};

/// Names the opt-out list of this machine: `FILE` or `followed:FILE`.
pub const VARIABLE: &str = "FIRSTFLIGHT_OPTOUT";
const FOLLOWED: &str = "followed:";

/// Time between two looks at the files. A change counts when two looks have seen the same file.
const LOOK: Mono = SECOND / 4;
/// Without a confirmation for this long, no new probe starts. Probes in flight have time to finish.
const BEGIN_FOR: u64 = 45 * SECOND;
/// Without a confirmation for this long, no packet is sent.
const SEND_FOR: u64 = 60 * SECOND;

/// The traffic that a followed list permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// No packets.
    None,
    /// Only packets of probes in flight.
    Ending,
    All,
}

/// The summary's fields about the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Followed {
    /// How often a changed list was read again.
    pub lists_read_again: u64,
    /// Seconds without new probes because the opt-out list was not confirmed; `None`: no list requires
    /// confirmations.
    pub unconfirmed_s: Option<f64>,
}

/// A file's version: device, inode, size, time of the last change.
type FileVersion = (u64, u64, i64, i64, i64);

#[derive(Debug)]
struct ListFile {
    kind: Kind,
    path: PathBuf,
    /// The version that was read; `None`: not read yet, or not a regular file, which cannot be read twice.
    read: Option<FileVersion>,
    /// The version at the last look.
    looked: Option<FileVersion>,
    /// Why the system refused to read the file. Each look then tries again: the remedy, such as a change of
    /// the file mode, need not change the version.
    unreadable: Option<String>,
    is_watched: bool,
}

/// The files of the lists, and the trust in the lists.
#[derive(Debug)]
pub struct Current {
    files: Vec<ListFile>,
    /// The followed list, and whether its last change could be read.
    followed: Option<(PathBuf, bool)>,
    looked_at: Option<Mono>,
    trust: Trust,
    reported: Trust,
    read_again: u64,
    unconfirmed: Mono,
}

/// The content of `FILE.confirmed`: the boot, and the nanoseconds since the boot (CLOCK_BOOTTIME). Setting
/// the clock does not change them.
#[derive(Deserialize)]
struct Confirmation {
    boot: String,
    at_ns: u64,
}

impl Current {
    /// Reads the lists of the run and `machine`, the value of [`VARIABLE`], into `listed`. Fails if the value
    /// names no file, or if a list other than a followed one cannot be read. No packet leaves before a
    /// followed list is read.
    pub fn read(
        blocklists: &[PathBuf],
        optouts: &[PathBuf],
        machine: Option<&str>,
        listed: &mut Listed,
    ) -> Result<Current, Failure> {
        // An empty value is a mistake in a unit file or a script. It must not look like no list.
        if let Some(value @ ("" | FOLLOWED)) = machine {
            return Err(Failure::Usage(format!(
                "{VARIABLE}={value} names no file: name the list, or unset it; nothing was sent"
            )));
        }
        let followed = machine.and_then(|value| value.strip_prefix(FOLLOWED));
        let plain = machine.filter(|_| followed.is_none());
        let paths = blocklists.iter().map(|path| (Kind::Block, path.clone()));
        let paths = paths.chain(optouts.iter().map(|path| (Kind::OptOut, path.clone())));
        let paths = paths.chain(plain.map(|path| (Kind::OptOut, PathBuf::from(path))));
        let mut files = Vec::new();
        for (kind, path) in paths {
            // Taken before the content is read, so that a change in between causes another read.
            let read = version_of(&path);
            let text = fs::read_to_string(&path).map_err(|e| {
                Failure::Input(format!(
                    "{} cannot be read: {e}; nothing was sent",
                    path.display()
                ))
            })?;
            listed.add(kind, &path.display().to_string(), &text)?;
            files.push(ListFile {
                kind,
                path,
                read,
                looked: read,
                unreadable: None,
                is_watched: kind == Kind::OptOut && read.is_some(),
            });
        }
        files.extend(followed.map(|path| ListFile {
            kind: Kind::OptOut,
            path: path.into(),
            read: None,
            looked: None,
            unreadable: None,
            is_watched: true,
        }));
        Ok(Current {
            files,
            followed: followed.map(|path| (path.into(), false)),
            looked_at: None,
            trust: followed.map_or(Trust::All, |_| Trust::None),
            reported: Trust::All,
            read_again: 0,
            unconfirmed: 0,
        })
    }

    /// Looks at the files if a look is due. Returns the trust in the lists.
    #[inline]
    pub fn look(&mut self, now: Mono, listed: &mut Listed) -> Trust {
        if self.looked_at.is_none_or(|at| now >= at + LOOK) {
            self.look_now(now, listed);
        }
        self.trust
    }

    /// Returns the trust in the lists, as of the last look.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// Returns the time of the next look.
    pub fn next_look(&self) -> Mono {
        self.looked_at.map_or(0, |at| at + LOOK)
    }

    /// Returns the summary's fields about the lists.
    pub fn report(&self) -> Followed {
        Followed {
            lists_read_again: self.read_again,
            unconfirmed_s: self
                .followed
                .as_ref()
                .map(|_| self.unconfirmed as f64 / SECOND as f64),
        }
    }

    /// Returns whether a file had changed at the last look but is not read yet.
    pub fn is_changing(&self) -> bool {
        let changed = |file: &ListFile| file.looked.is_some() && file.looked != file.read;
        self.files
            .iter()
            .any(|file| file.is_watched && changed(file))
    }

    fn look_now(&mut self, now: Mono, listed: &mut Listed) {
        if self.trust < Trust::All {
            self.unconfirmed += now - self.looked_at.unwrap_or(now);
        }
        self.looked_at = Some(now);
        // The confirmation is read first, because the list is written first. The list is then at least as new
        // as its confirmation.
        let age = self.followed.as_ref().and_then(|(path, _)| age(path));
        for number in 0..self.files.len() {
            self.read_again(number, listed);
        }
        self.trust = match (&self.followed, age) {
            (None, _) => Trust::All,
            (Some((_, true)), Some(age)) if age < BEGIN_FOR => Trust::All,
            (Some((_, true)), Some(age)) if age < SEND_FOR => Trust::Ending,
            _ => Trust::None,
        };
        self.say();
    }

    /// Reads a list again if it has changed and is no longer changing, or if it was unreadable.
    fn read_again(&mut self, number: usize, listed: &mut Listed) {
        let file = &mut self.files[number];
        if !file.is_watched {
            return;
        }
        let is_followed = self.followed.as_ref().is_some_and(|(p, _)| *p == file.path);
        let now = version_of(&file.path);
        let before = std::mem::replace(&mut file.looked, now);
        // A followed list is replaced atomically, so that it is always complete.
        let is_whole = is_followed || before == now;
        let is_due = now != file.read || file.unreadable.is_some();
        if now.is_none() || !is_whole || !is_due {
            return;
        }
        let is_first = file.read.is_none();
        let name = file.path.display().to_string();
        let reported = file.unreadable.take();
        let added = match fs::read_to_string(&file.path) {
            Ok(text) => listed.add(file.kind, &name, &text),
            Err(e) => {
                let why = format!("{name} cannot be read: {e}");
                let is_content = e.kind() == ErrorKind::InvalidData;
                file.unreadable = (!is_content).then(|| why.clone());
                Err(Failure::Input(why))
            }
        };
        file.read = now;
        let is_known = reported.is_some() && reported == file.unreadable;
        if let Some((_, is_good)) = self.followed.as_mut().filter(|_| is_followed) {
            *is_good = added.is_ok();
        }
        match added {
            Ok(()) if is_first => {}
            Ok(()) => self.read_again += 1,
            Err(_) if is_known => {}
            Err(why) => {
                let why = why.to_string();
                let why = why.trim_end_matches("; correct it, nothing was sent");
                tell!("lists: {why}; what the lists named before stays in force");
            }
        }
    }

    /// Reports each change of the trust once.
    fn say(&mut self) {
        if let Some((path, _)) = &self.followed
            && let Some(sentence) = sentence(self.reported, self.trust)
        {
            tell!("lists: {} {sentence}", path.display());
        }
        self.reported = self.trust;
    }
}

/// Returns the sentence about a change of the trust, if it needs one. Looks can be far apart, so any trust
/// can follow any other.
fn sentence(before: Trust, now: Trust) -> Option<String> {
    let unconfirmed = |ns: u64| format!("was not confirmed in the last {} s", ns / SECOND);
    match (before, now) {
        (before, now) if before == now => None,
        (_, Trust::All) => Some("is confirmed: the run continues".into()),
        (_, Trust::None) => Some(format!(
            "{}: nothing is sent until it is",
            unconfirmed(SEND_FOR)
        )),
        (Trust::All, Trust::Ending) => Some(format!(
            "{}: no new probe starts until it is",
            unconfirmed(BEGIN_FOR)
        )),
        (_, Trust::Ending) => None,
    }
}

/// Returns how long ago, in ns, the list was confirmed; `None`: unknown, or confirmed in another boot.
fn age(list: &Path) -> Option<u64> {
    let text = fs::read_to_string(list.with_added_extension("confirmed")).ok()?;
    let confirmation: Confirmation = serde_json::from_str(&text).ok()?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let time = clock_gettime(ClockId::Boottime);
    let now = u64::try_from(time.tv_sec).ok()? * SECOND + u64::try_from(time.tv_nsec).ok()?;
    (confirmation.boot == boot.trim())
        .then(|| now.checked_sub(confirmation.at_ns))
        .flatten()
}

/// Returns a regular file's version.
fn version_of(path: &Path) -> Option<FileVersion> {
    let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let size = i64::try_from(meta.size()).unwrap_or(i64::MAX);
    Some((
        meta.dev(),
        meta.ino(),
        size,
        meta.mtime(),
        meta.mtime_nsec(),
    ))
}

#[cfg(test)]
mod tests;
