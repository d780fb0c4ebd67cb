//! A run's outputs. They are opened and checked before anything is sent.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use firstflight_usage::stdout;

use crate::Failure;
use crate::output::records::{Columns, FolderLock, Segments, Sinks, Skips};
use crate::output::whole_file::check_writable;

/// The output options of every engine.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputArguments {
    /// Format of the records on standard output: a JSON object or a line of text per record (default: text on
    /// a terminal, otherwise jsonl; no records with --segments)
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Write records as Arrow IPC files seg-000001.arrow, ... into DIR, one at least every second
    #[arg(long, value_name = "DIR")]
    pub segments: Option<PathBuf>,

    /// Skip targets that the segments in DIR already answer; the list must be the same
    #[arg(long, requires = "segments")]
    pub resume: bool,

    /// Write counts and settings of the run to FILE (JSON)
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,

    /// Write progress, speed and limit of the run to FILE twice a second (JSON)
    #[arg(long, value_name = "FILE")]
    pub progress: Option<PathBuf>,
}

/// Formats for standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Jsonl,
    // Engines do not write text: the command `firstflight` makes it from their JSON lines.
    Text,
}

impl OutputArguments {
    /// Returns the options for [`Outputs::open`]. `skipped`: the file for skipped planned probes.
    pub fn options<'a>(&'a self, skipped: Option<&'a Path>) -> OutputOptions<'a> {
        OutputOptions {
            json: self.format == Some(Format::Jsonl) || self.segments.is_none(),
            text: self.format == Some(Format::Text),
            segments: self.segments.as_deref(),
            resume: self.resume,
            summary: self.summary.as_deref(),
            progress: self.progress.as_deref(),
            skipped,
        }
    }
}

/// The checked output options.
#[derive(Clone, Copy, Debug)]
pub struct OutputOptions<'a> {
    /// Records as JSON lines on standard output.
    pub json: bool,
    /// Text output was requested, which engines do not write.
    pub text: bool,
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
    /// Lock of the folder of segments. Keep it until the summary is written: the next engine that gets the
    /// lock may replace all of these files.
    pub lock: Option<FolderLock>,
}

impl<C: Columns> Outputs<C> {
    /// Opens the outputs, after earlier engines have finished writing to the folder of segments.
    pub fn open(options: &OutputOptions<'_>) -> Result<Outputs<C>, Failure> {
        if options.text {
            return Err(Failure::Usage(
                "--format text is for the command firstflight, which makes text from this program's JSON lines: \
                 omit it; nothing was sent"
                    .into(),
            ));
        }
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
