//! Where a run writes: opened and checked before anything is sent.

use firstflight_usage::stdout;

use crate::error::Failure;
use crate::options::{Format, Options};
use crate::segments::Segments;
use crate::skips::Skips;
use crate::summary::check_place;
use crate::writer::Sinks;

/// The places.
pub struct Outputs {
    pub records: Sinks,
    pub skips: Skips,
}

impl Outputs {
    /// Opens what the options name.
    pub fn open(options: &Options) -> Result<Outputs, Failure> {
        let json = options.format == Some(Format::Jsonl) || options.segments.is_none();
        if json && stdout::was_closed() {
            return Err(Failure::Output(
                "standard output is closed, so records cannot be written: redirect it to a file, or give --segments DIR; \
                 nothing was sent"
                    .into(),
            ));
        }
        options.summary.as_deref().map_or(Ok(()), check_place)?;
        let skips = Skips::open(options.skipped.as_deref())?;
        let segments = options
            .segments
            .as_deref()
            .map(|dir| Segments::open(dir, options.resume))
            .transpose()?;
        Ok(Outputs {
            records: Sinks { json, segments },
            skips,
        })
    }
}
