//! Copies of captures without bytes that no key decrypts and without padding (`--trim`).
//!
//! A copy has all records of the capture, with their times and original lengths. It lacks bytes of some datagrams:
//! `quic::connection` determines the undecryptable bytes, `padding` the padding. With `--trim-others`, the copy omits
//! the datagrams that belong to no connection, because anybody can send such datagrams.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::input::Frame;
use crate::padding::{Cutter, MAGIC, MARK, NotRestored, Sealed};
use crate::writer::{Writer, refused};

const BUFFER: usize = 1 << 18;

/// The part of a frame that a copy keeps.
#[derive(Default)]
pub struct Keep<'a> {
    /// Number of bytes to keep, because no key decrypts the rest; `None`: all.
    pub first: Option<usize>,
    /// The frame's datagram, to remove the padding; `None`: keep the padding.
    pub sealed: Option<Sealed<'a>>,
}

/// A capture's unfinished copy: `NAME.part`, which is removed unless the copy is completed.
pub struct Copy {
    path: PathBuf,
    part: PathBuf,
    out: Writer<BufWriter<File>>,
    cutter: Cutter,
    /// A record without the padding.
    record: Vec<u8>,
    frames: u64,
    trimmed: u64,
    unpadded: u64,
    removed: u64,
    /// Link type of the first omitted frame.
    link: Option<i32>,
    is_named: bool,
}

impl Copy {
    /// An existing file in `folder` that conflicts with the copy of a capture called `name`.
    pub fn taken(folder: &Path, name: &OsStr) -> Option<PathBuf> {
        let path = folder.join(name);
        [with(&path, ".part"), with(&path, ".json"), path]
            .into_iter()
            .find(|place| place.symlink_metadata().is_ok())
    }

    /// Creates the copy of `capture` in `folder`, with the same name.
    pub fn create(folder: &Path, capture: &Path) -> io::Result<Copy> {
        let name = capture.file_name().ok_or_else(|| refused("has no name"))?;
        let path = folder.join(name);
        let part = with(&path, ".part");
        let file = File::create_new(&part)?;
        Ok(Copy {
            path,
            part,
            out: Writer::new(BufWriter::with_capacity(BUFFER, file), MARK),
            cutter: Cutter::default(),
            record: Vec::new(),
            frames: 0,
            trimmed: 0,
            unpadded: 0,
            removed: 0,
            link: None,
            is_named: false,
        })
    }

    /// Adds a frame, or the part of it that `keep` selects.
    pub fn frame(&mut self, frame: &Frame<'_>, keep: Keep<'_>) -> io::Result<()> {
        self.frames += 1;
        let length = frame.data.len() + frame.cut;
        let mut data = frame.data;
        // A cut record must not end like a record without padding, because a reader would try to restore it. Keep it
        // uncut.
        let first = keep.first.and_then(|first| frame.data.get(..first));
        if let Some(first) = first.filter(|first| !first.ends_with(&MAGIC)) {
            data = first;
            self.trimmed += 1;
        }
        if let Some(sealed) = keep.sealed
            && self.cut(data, length, sealed)?
        {
            self.unpadded += 1;
            return self.out.record(frame, &self.record);
        }
        if data.len() < length && data.ends_with(&MAGIC) {
            return Err(refused("has a record that looks like one without padding"));
        }
        self.out.record(frame, data)
    }

    /// Counts an omitted frame.
    pub fn leave_out(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        self.removed += 1;
        self.link.get_or_insert(frame.link);
    }

    /// Whether `record` now holds `data` without the padding. `length` is the frame's length on the wire.
    fn cut(&mut self, data: &[u8], length: usize, sealed: Sealed<'_>) -> io::Result<bool> {
        (self.cutter)
            .cut(data, length - data.len(), sealed, &mut self.record)
            .map_err(|NotRestored| {
                refused("has a record without padding that cannot be restored: a fault of this program, please report it")
            })
    }

    /// Renames the copy once it is on the disk, and writes `NAME.json`: the number of frames in the capture (`frames`),
    /// of frames that are cut before undecryptable bytes (`trimmed`), of frames without padding (`unpadded`), and of
    /// omitted frames (`removed`). Writes no copy for a capture without frames.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.out.has_begun() {
            let Some(link) = self.link else {
                return Ok(());
            };
            self.out.begin(link)?;
        }
        self.out.flush()?;
        self.out.get_ref().get_ref().sync_all()?;
        std::fs::rename(&self.part, &self.path)?;
        self.is_named = true;
        let counts = json!({
            "frames": self.frames,
            "trimmed": self.trimmed,
            "unpadded": self.unpadded,
            "removed": self.removed,
        });
        std::fs::write(with(&self.path, ".json"), format!("{counts}\n"))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if !self.is_named {
            // An incomplete copy is useless. If it cannot be removed, the error that caused this is sufficient.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
