//! Where rows go: standard output, or a file per kind.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use firstflight_records::Row;

use super::deferred::Deferred;
use super::jsonl::JsonLines;
use super::parquet_file::ParquetFile;
use super::part::Part;
use super::rows::quic_connection::ConnectionRow;
use super::stamps::Stamps;
use super::summary::Summary;
use super::write_buffer::Place;
use super::{Format, Kind};

/// The destination of the rows.
#[derive(Clone, Debug)]
pub struct Destination {
    pub kinds: Vec<Kind>,
    pub format: Format,
    /// `None`: standard output.
    pub folder: Option<PathBuf>,
    pub stamps: Stamps,
    /// File for the counts of written rows.
    pub summary: Option<PathBuf>,
}

/// The reason why records could not be written.
#[derive(Debug)]
pub struct OutputError {
    pub place: String,
    pub cause: io::Error,
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be written: {}", self.place, self.cause)
    }
}

enum Sink {
    Jsonl(JsonLines),
    Parquet(Box<ParquetFile>),
    /// For a Parquet file, later.
    Deferred(Deferred),
}

/// The output for a record kind.
struct Output {
    kind: Kind,
    place: String,
    /// A file that gets its final name when it is complete.
    part: Option<Part>,
    sink: Sink,
    stamps: Stamps,
}

/// All outputs, or rows that are stored for them.
pub struct Outputs {
    places: Vec<Output>,
    summary: Summary,
    summary_file: Option<SummaryFile>,
}

/// The file for the summary.
struct SummaryFile {
    place: String,
    part: Part,
    file: File,
}

impl Outputs {
    /// Opens the outputs of `to`. Files are written as KIND.FORMAT.part until [`Outputs::finish`].
    pub fn open(to: &Destination) -> Result<Outputs, OutputError> {
        let places = kinds(to).into_iter().map(|kind| open_one(to, kind));
        Ok(Outputs {
            places: places.collect::<Result<_, _>>()?,
            summary: Summary::default(),
            summary_file: to.summary.as_deref().map(SummaryFile::create).transpose()?,
        })
    }

    /// Stores rows until [`Outputs::take`] writes them: in memory, and beyond a megabyte in an unnamed file.
    pub fn aside(to: &Destination) -> Outputs {
        let place = display(&std::env::temp_dir());
        let places = kinds(to).into_iter().map(|kind| {
            let stamps = to.stamps.of(kind);
            let (name, columns) = (kind.name(), &stamps.around(kind.columns()));
            Output {
                kind,
                place: place.clone(),
                part: None,
                sink: match to.format {
                    Format::Jsonl => Sink::Jsonl(JsonLines::new(Place::Aside(None), name, columns)),
                    Format::Parquet => Sink::Deferred(Deferred::new()),
                },
                stamps,
            }
        });
        Outputs {
            places: places.collect(),
            summary: Summary::default(),
            summary_file: None,
        }
    }

    /// Writes the rows of `other`, which has the same destination.
    pub fn take(&mut self, other: Outputs) -> Result<(), OutputError> {
        for (output, aside) in self.places.iter_mut().zip(other.places) {
            match (&mut output.sink, aside.sink) {
                (Sink::Jsonl(lines), Sink::Jsonl(aside)) => lines.append(aside),
                (Sink::Parquet(file), Sink::Deferred(aside)) => {
                    aside.replay(|row| file.write_row(row))
                }
                _ => Ok(()),
            }
            .map_err(|cause| output.failed(cause))?;
        }
        self.summary.add(other.summary);
        Ok(())
    }

    /// Whether rows of `kind` are requested.
    pub fn wants(&self, kind: Kind) -> bool {
        self.places.iter().any(|output| output.kind == kind)
    }

    /// Writes a row, if the kind is requested.
    pub fn write(&mut self, kind: Kind, row: &(impl Row + ?Sized)) -> Result<(), OutputError> {
        let Some(output) = self.places.iter_mut().find(|output| output.kind == kind) else {
            return Ok(());
        };
        self.summary.row(kind);
        output.write(row).map_err(|cause| output.failed(cause))
    }

    /// Writes a row with the stamps for its kind, if the kind is requested.
    pub fn write_stamped(&mut self, kind: Kind, row: &impl Row) -> Result<(), OutputError> {
        let Some(output) = self.places.iter_mut().find(|output| output.kind == kind) else {
            return Ok(());
        };
        self.summary.row(kind);
        output
            .write_stamped(row)
            .map_err(|cause| output.failed(cause))
    }

    /// Writes a connection's row with its stamps.
    pub fn write_connection(&mut self, row: &ConnectionRow<'_>) -> Result<(), OutputError> {
        let kind = Kind::QuicConnection;
        let Some(output) = self.places.iter_mut().find(|output| output.kind == kind) else {
            return Ok(());
        };
        self.summary.row(kind);
        self.summary
            .connection(row.first_answer(), row.has_client_hello());
        output
            .write_stamped(row)
            .map_err(|cause| output.failed(cause))
    }

    /// Writes the buffered rows if the format allows it, so that a reader sees them.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        for output in &mut self.places {
            if let Sink::Jsonl(out) = &mut output.sink {
                out.flush().map_err(|cause| output.failed(cause))?;
            }
        }
        Ok(())
    }

    /// Finishes the files. If `is_whole` (all captures were read, up to their end or first fault), files get their
    /// final names; otherwise they stay `.part`. Files that cannot be completely written are removed. The summary is
    /// written if all files got their final names.
    pub fn finish(self, is_whole: bool) -> Result<(), OutputError> {
        let kinds: Vec<Kind> = self.places.iter().map(|output| output.kind).collect();
        for output in self.places {
            let failed = |cause| OutputError {
                place: output.place.clone(),
                cause,
            };
            match output.sink {
                Sink::Jsonl(mut out) => out.flush().map_err(failed)?,
                Sink::Parquet(file) => file.finish().map_err(failed)?,
                Sink::Deferred(_) => {}
            }
            match output.part {
                Some(part) if is_whole => part.finish().map_err(failed)?,
                Some(part) => part.keep(),
                None => {}
            }
        }
        match self.summary_file {
            Some(file) if is_whole => file.write(&self.summary.to_json(kinds.into_iter())),
            _ => Ok(()),
        }
    }
}

impl SummaryFile {
    fn create(path: &Path) -> Result<SummaryFile, OutputError> {
        let place = display(path);
        match Part::create(path) {
            Ok((part, file)) => Ok(SummaryFile { place, part, file }),
            Err(cause) => Err(OutputError { place, cause }),
        }
    }

    fn write(self, summary: &serde_json::Value) -> Result<(), OutputError> {
        let SummaryFile {
            place,
            part,
            mut file,
        } = self;
        writeln!(file, "{summary}")
            .and_then(|()| part.finish())
            .map_err(|cause| OutputError { place, cause })
    }
}

impl Output {
    fn write(&mut self, row: &(impl Row + ?Sized)) -> io::Result<()> {
        match &mut self.sink {
            Sink::Jsonl(lines) => lines.write_row(row),
            Sink::Parquet(file) => file.write_row(row),
            Sink::Deferred(aside) => aside.write_row(row),
        }
    }

    fn write_stamped(&mut self, row: &impl Row) -> io::Result<()> {
        if self.stamps.is_empty() {
            return self.write(row);
        }
        let stamps = std::mem::take(&mut self.stamps);
        let written = self.write(&stamps.stamp(row));
        self.stamps = stamps;
        written
    }

    fn failed(&self, cause: io::Error) -> OutputError {
        OutputError {
            place: self.place.clone(),
            cause,
        }
    }
}

/// The requested kinds, without repetitions.
fn kinds(to: &Destination) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for kind in &to.kinds {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    kinds
}

fn open_one(to: &Destination, kind: Kind) -> Result<Output, OutputError> {
    let stamps = to.stamps.of(kind);
    let (name, columns) = (kind.name(), &stamps.around(kind.columns()));
    let Some(folder) = &to.folder else {
        let place = Place::Shared(Box::new(io::stdout()));
        let sink = Sink::Jsonl(JsonLines::new(place, name, columns));
        return Ok(Output {
            kind,
            place: "standard output".into(),
            part: None,
            sink,
            stamps,
        });
    };
    let whole = folder.join(format!("{name}.{}", to.format.extension()));
    let place = display(&whole);
    let open = || {
        std::fs::create_dir_all(folder)?;
        let (part, file) = Part::create(&whole)?;
        let sink = match to.format {
            Format::Jsonl => Sink::Jsonl(JsonLines::new(Place::Own(file), name, columns)),
            Format::Parquet => Sink::Parquet(Box::new(ParquetFile::new(file, name, columns)?)),
        };
        Ok((Some(part), sink))
    };
    match open() {
        Ok((part, sink)) => Ok(Output {
            kind,
            place,
            part,
            sink,
            stamps,
        }),
        Err(cause) => Err(OutputError { place, cause }),
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
