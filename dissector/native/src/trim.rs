//! Copies of captures without the bytes that nobody can ever open, and without padding (`--trim`).
//!
//! A copy has all records of its capture, with their times and original lengths; of some datagrams it holds
//! less. Which and how much, `quic::connection` says; what padding is, `padding`. With `--trim-others` it lacks the
//! datagrams that belong to no connection, because anybody can send them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::input::Frame;
use crate::padding::{Cutter, MAGIC, MARK, NotRestored, Sealed};
use crate::writer::{Writer, refused};

const BUFFER: usize = 1 << 18;

/// What of a frame a copy holds.
#[derive(Default)]
pub struct Keep<'a> {
    /// Its first bytes, since nobody can open the rest; `None`: all.
    pub first: Option<usize>,
    /// The datagram in it, whose padding is left out; `None`: it stays.
    pub sealed: Option<Sealed<'a>>,
}

/// The copy of one capture, as it is written: `NAME.part`, removed unless it gets its name.
pub struct Copy {
    path: PathBuf,
    part: PathBuf,
    out: Writer<BufWriter<File>>,
    cutter: Cutter,
    /// A record without its padding.
    record: Vec<u8>,
    frames: u64,
    trimmed: u64,
    unpadded: u64,
    removed: u64,
    /// Link type of the first frame that was left out.
    link: Option<i32>,
    is_named: bool,
}

impl Copy {
    /// A file that is in `folder` already where the copy of a capture called `name` would be written.
    pub fn taken(folder: &Path, name: &OsStr) -> Option<PathBuf> {
        let path = folder.join(name);
        [with(&path, ".part"), with(&path, ".json"), path]
            .into_iter()
            .find(|place| place.symlink_metadata().is_ok())
    }

    /// Begins the copy of `capture` in `folder`, under the same name.
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

    /// Adds a frame, or what of it is to be kept.
    pub fn frame(&mut self, frame: &Frame<'_>, keep: Keep<'_>) -> io::Result<()> {
        self.frames += 1;
        let length = frame.data.len() + frame.cut;
        let mut data = frame.data;
        // A record that ends like one without padding would be taken for one: it stays as it is.
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
            return Err(refused("has a record that ends like one without padding"));
        }
        self.out.record(frame, data)
    }

    /// Counts a frame that the copy lacks.
    pub fn leave_out(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        self.removed += 1;
        self.link.get_or_insert(frame.link);
    }

    /// Whether `record` holds `data`, of a frame of `length` bytes, without its padding.
    fn cut(&mut self, data: &[u8], length: usize, sealed: Sealed<'_>) -> io::Result<bool> {
        (self.cutter)
            .cut(data, length - data.len(), sealed, &mut self.record)
            .map_err(|NotRestored| {
                refused("has a record without padding that cannot be restored: a fault of this program, please report it")
            })
    }

    /// Gives the copy its name once it is on the disk, and writes `NAME.json` beside it: how many frames the
    /// capture has, of how many the end is missing that nobody can open, of how many the padding, and how many
    /// were left out. Of a capture without frames there is no copy.
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
            // What is not whole is of no use; if it cannot be removed, the error that led here is enough.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
