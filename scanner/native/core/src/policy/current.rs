//! Lists that change while a run goes on: read again, and trusted only while somebody confirms them.
//!
//! A run's own opt-out lists are read again when their files change; it keeps its block lists. The list of
//! the environment variable [`VARIABLE`] is in force beside them; as `followed:FILE` it is a copy of the
//! centre's, which `firstflight optout follow` writes, and `FILE.confirmed` says when the centre last confirmed
//! it. What a list has named once stays listed until the run ends, so no half-written or removed file loosens
//! anything.
//!
//! `firstflight/egress/current.py` keeps the same rules for programs in Python.

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

/// How often files are looked at. A change counts when two looks have seen the same file.
const LOOK: Mono = SECOND / 4;
/// Without a confirmation for so long nothing new begins: what is under way has time to end.
const BEGIN_FOR: u64 = 45 * SECOND;
/// Without a confirmation for so long nothing is sent.
const SEND_FOR: u64 = 60 * SECOND;

/// What a followed list permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Nothing is sent.
    None,
    /// What is under way goes on.
    Ending,
    All,
}

/// What a run says of its lists at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Followed {
    /// Lists that had changed and were read again.
    pub lists_read_again: u64,
    /// Seconds in which nothing new began, because the opt-out list was not confirmed; `None`: nobody has to
    /// confirm one.
    pub unconfirmed_s: Option<f64>,
}

/// A file as it was: device, inode, size, time of its last change.
type FileVersion = (u64, u64, i64, i64, i64);

#[derive(Debug)]
struct ListFile {
    kind: Kind,
    path: PathBuf,
    /// As it was when it was read; `None`: not read yet, or no regular file, which cannot be read twice.
    read: Option<FileVersion>,
    /// As the last look found it.
    looked: Option<FileVersion>,
    /// Why the system did not let it be read. Then each look tries it again: what mends that, as a change of its
    /// mode, need not change the version.
    unreadable: Option<String>,
    is_watched: bool,
}

/// The files of the lists, and how far they are trusted.
#[derive(Debug)]
pub struct Current {
    files: Vec<ListFile>,
    /// The file that a followed list is, and whether its last change could be read.
    followed: Option<(PathBuf, bool)>,
    looked_at: Option<Mono>,
    trust: Trust,
    reported: Trust,
    read_again: u64,
    unconfirmed: Mono,
}

/// The content of `FILE.confirmed`: which boot, and nanoseconds since then (CLOCK_BOOTTIME), which no setting
/// of the clock changes.
#[derive(Deserialize)]
struct Confirmation {
    boot: String,
    at_ns: u64,
}

impl Current {
    /// Reads the lists of the run and `machine`, the value of [`VARIABLE`], into `listed`. A list of the
    /// run's that cannot be read is an error, and a value that names no file; a followed list is waited for.
    pub fn read(
        blocklists: &[PathBuf],
        optouts: &[PathBuf],
        machine: Option<&str>,
        listed: &mut Listed,
    ) -> Result<Current, Failure> {
        // A mistake in a unit file or a script; it must not look like no list.
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
            // Before its content: what changes in between is read again.
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

    /// Looks at the files, if that is due; returns what may be sent.
    #[inline]
    pub fn look(&mut self, now: Mono, listed: &mut Listed) -> Trust {
        if self.looked_at.is_none_or(|at| now >= at + LOOK) {
            self.look_now(now, listed);
        }
        self.trust
    }

    /// Returns what may be sent, as of the last look.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// Returns when files are looked at again.
    pub fn next_look(&self) -> Mono {
        self.looked_at.map_or(0, |at| at + LOOK)
    }

    /// Returns what the summary says of the lists.
    pub fn report(&self) -> Followed {
        Followed {
            lists_read_again: self.read_again,
            unconfirmed_s: self
                .followed
                .as_ref()
                .map(|_| self.unconfirmed as f64 / SECOND as f64),
        }
    }

    /// Returns whether a file had changed at the last look and was not read yet.
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
        // First, because the list is written first: then it is at least as new as its confirmation.
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

    /// Reads a list again if it has changed and is no longer changing, or could not be read.
    fn read_again(&mut self, number: usize, listed: &mut Listed) {
        let file = &mut self.files[number];
        if !file.is_watched {
            return;
        }
        let is_followed = self.followed.as_ref().is_some_and(|(p, _)| *p == file.path);
        let now = version_of(&file.path);
        let before = std::mem::replace(&mut file.looked, now);
        // A followed list is replaced in one step, so it is whole at once.
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

    /// Says once what may be sent no longer, and once that it goes on.
    fn say(&mut self) {
        if let Some((path, _)) = &self.followed
            && let Some(sentence) = sentence(self.reported, self.trust)
        {
            tell!("lists: {} {sentence}", path.display());
        }
        self.reported = self.trust;
    }
}

/// Returns the sentence about a list whose trust is another than at the last look. Much time can lie between
/// two looks, so any trust can follow any other.
fn sentence(before: Trust, now: Trust) -> Option<String> {
    let unconfirmed = |ns: u64| format!("was not confirmed in the last {} s", ns / SECOND);
    match (before, now) {
        (before, now) if before == now => None,
        (_, Trust::All) => Some("is confirmed: the run goes on".into()),
        (_, Trust::None) => Some(format!(
            "{}: nothing is sent until it is",
            unconfirmed(SEND_FOR)
        )),
        (Trust::All, Trust::Ending) => Some(format!(
            "{}: nothing new begins until it is",
            unconfirmed(BEGIN_FOR)
        )),
        (_, Trust::Ending) => None,
    }
}

/// Returns how long ago, in ns, the list was confirmed; `None`: unknown, or in another boot.
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

/// Returns what tells whether a regular file has changed.
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
