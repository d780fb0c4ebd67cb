//! The outputs of a run: opened and checked before anything is sent.

use std::path::Path;

use firstflight_usage::stdout;

use crate::Failure;
use crate::feed::Skips;
use crate::records::Columns;
use crate::records::Segments;
use crate::records::Sinks;
use crate::records::summary::check_writable;

/// The options about outputs.
#[derive(Clone, Copy, Debug)]
pub struct OutputOptions<'a> {
    /// Records as JSON lines on standard output.
    pub json: bool,
    pub segments: Option<&'a Path>,
    /// The folder may contain segments already.
    pub resume: bool,
    pub summary: Option<&'a Path>,
    pub skipped: Option<&'a Path>,
}

/// The open outputs.
pub struct Outputs<C> {
    pub records: Sinks<C>,
    pub skips: Skips,
}

impl<C: Columns> Outputs<C> {
    /// Opens what the options name.
    pub fn open(options: &OutputOptions<'_>) -> Result<Outputs<C>, Failure> {
        let json = options.json;
        if json && stdout::was_closed() {
            return Err(Failure::Output(
                "standard output is closed, so records cannot be written: redirect it to a file, or \
                 give --segments DIR; nothing was sent"
                    .into(),
            ));
        }
        options.summary.map_or(Ok(()), check_writable)?;
        let skips = Skips::open(options.skipped)?;
        let segments = options
            .segments
            .map(|dir| Segments::open(dir, options.resume))
            .transpose()?;
        Ok(Outputs {
            records: Sinks { json, segments },
            skips,
        })
    }
}
