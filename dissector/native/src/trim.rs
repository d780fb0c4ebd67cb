//! Copies of captures without the bytes that nobody can ever open (`--trim`).
//!
//! A copy has all records of its capture, with their times and original lengths; of some datagrams it holds
//! less. Which and how much, `quic::connection` says.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::input::Frame;

/// Magic number of pcap files with nanoseconds, in the byte order of the writer.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// No frame is larger (tcpdump's MAXIMUM_SNAPLEN).
const SNAPLEN: u32 = 262_144;
const NS_PER_S: i64 = 1_000_000_000;
const BUFFER: usize = 1 << 18;

/// The copy of one capture, as it is written: `NAME.part`, removed unless it gets its name.
pub struct Copy {
    path: PathBuf,
    part: PathBuf,
    out: BufWriter<File>,
    /// Link type of its frames; `None` before the first.
    link: Option<i32>,
    frames: u64,
    trimmed: u64,
    is_named: bool,
}

impl Copy {
    /// Begins the copy of `capture` in `folder`, under the same name.
    pub fn create(folder: &Path, capture: &Path) -> io::Result<Copy> {
        let name = capture.file_name().ok_or_else(|| refused("has no name"))?;
        let path = folder.join(name);
        let part = with(&path, ".part");
        let file = File::create_new(&part)?;
        Ok(Copy {
            path,
            part,
            out: BufWriter::with_capacity(BUFFER, file),
            link: None,
            frames: 0,
            trimmed: 0,
            is_named: false,
        })
    }

    /// Adds a frame with the first `kept` bytes of what was captured. `is_trimmed`: nobody can open the rest.
    pub fn frame(&mut self, frame: &Frame<'_>, kept: usize, is_trimmed: bool) -> io::Result<()> {
        let data = frame.data.get(..kept).unwrap_or(frame.data);
        if self.link.is_none() {
            self.header(frame.link)?;
        }
        if self.link != Some(frame.link) {
            return Err(refused("has frames of several link types"));
        }
        let length = frame.data.len() + frame.cut;
        let fields = [
            u32::try_from(frame.time_ns.div_euclid(NS_PER_S)),
            u32::try_from(frame.time_ns.rem_euclid(NS_PER_S)),
            u32::try_from(data.len()),
            u32::try_from(length),
        ];
        for field in fields {
            let field = field.map_err(|_| refused("has a time or length that pcap cannot hold"))?;
            self.out.write_all(&field.to_ne_bytes())?;
        }
        self.out.write_all(data)?;
        self.frames += 1;
        self.trimmed += u64::from(is_trimmed);
        Ok(())
    }

    fn header(&mut self, link: i32) -> io::Result<()> {
        let [major, minor] = [2_u16, 4];
        let head = [
            &NANOSECONDS.to_ne_bytes()[..],
            &major.to_ne_bytes(),
            &minor.to_ne_bytes(),
            &[0; 8],
            &SNAPLEN.to_ne_bytes(),
            &link.to_ne_bytes(),
        ];
        self.link = Some(link);
        self.out.write_all(&head.concat())
    }

    /// Gives the copy its name once it is on the disk, and writes `NAME.json` beside it: how many frames it
    /// has, and how many of them are trimmed. Of a capture without frames there is no copy.
    pub fn finish(mut self) -> io::Result<()> {
        if self.link.is_none() {
            return Ok(());
        }
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        std::fs::rename(&self.part, &self.path)?;
        self.is_named = true;
        let counts = json!({"frames": self.frames, "trimmed": self.trimmed});
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

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what.to_owned())
}
