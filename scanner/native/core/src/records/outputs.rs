//! The outputs of a run: opened and checked before anything is sent.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use firstflight_usage::stdout;

use crate::Failure;
use crate::feed::Skips;
use crate::records::Columns;
use crate::records::FolderLock;
use crate::records::Segments;
use crate::records::Sinks;
use crate::whole_file::check_writable;

/// The options about outputs as every engine's command line has them.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputArguments {
    /// Records on standard output, one JSON object per line (default unless --segments is given)
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Write records as Arrow IPC files seg-000001.arrow, ... into DIR, one at least every second
    #[arg(long, value_name = "DIR")]
    pub segments: Option<PathBuf>,

    /// Leave out what the segments in DIR already answer; the list must be the same
    #[arg(long, requires = "segments")]
    pub resume: bool,

    /// Write counts and settings of the run to FILE (JSON)
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,

    /// Write to FILE twice a second how far the run is, how fast, and what limits it (JSON)
    #[arg(long, value_name = "FILE")]
    pub progress: Option<PathBuf>,
}

/// Formats for standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Jsonl,
}

impl OutputArguments {
    /// Returns what [`Outputs::open`] opens; `skipped`: the file for planned probes that are skipped.
    pub fn options<'a>(&'a self, skipped: Option<&'a Path>) -> OutputOptions<'a> {
        OutputOptions {
            json: self.format == Some(Format::Jsonl) || self.segments.is_none(),
            segments: self.segments.as_deref(),
            resume: self.resume,
            summary: self.summary.as_deref(),
            progress: self.progress.as_deref(),
            skipped,
        }
    }
}

/// What the options about outputs come to.
#[derive(Clone, Copy, Debug)]
pub struct OutputOptions<'a> {
    /// Records as JSON lines on standard output.
    pub json: bool,
    pub segments: Option<&'a Path>,
    /// The folder may contain segments already.
    pub resume: bool,
    pub summary: Option<&'a Path>,
    pub progress: Option<&'a Path>,
    pub skipped: Option<&'a Path>,
}

/// The open outputs.
pub struct Outputs<C> {
    pub records: Sinks<C>,
    pub skips: Skips,
    /// Of the folder of segments. Keep it until the summary is written: with the lock, the next engine may
    /// replace all of these files.
    pub lock: Option<FolderLock>,
}

impl<C: Columns> Outputs<C> {
    /// Opens what the options name, once no earlier engine writes into the folder of segments.
    pub fn open(options: &OutputOptions<'_>) -> Result<Outputs<C>, Failure> {
        let json = options.json;
        if json && stdout::was_closed() {
            return Err(Failure::Output(
                "standard output is closed, so records cannot be written: redirect it to a file, or \
                 give --segments DIR; nothing was sent"
                    .into(),
            ));
        }
        let lock = options.segments.map(FolderLock::take).transpose()?;
        for (option, path) in [
            ("--summary", options.summary),
            ("--progress", options.progress),
        ] {
            path.map_or(Ok(()), |path| check_writable(option, path))?;
        }
        let skips = Skips::open(options.skipped)?;
        let segments = options
            .segments
            .map(|dir| Segments::open(dir, options.resume))
            .transpose()?;
        Ok(Outputs {
            records: Sinks {
                json,
                segments,
                sides: (),
            },
            skips,
            lock,
        })
    }
}
