//! Rows of record kinds, as JSON lines or Parquet.

mod deferred;
mod jsonl;
pub mod pacing;
pub mod parameters;
mod parquet_file;
pub mod quic_connection;
pub mod quic_packet;
mod row;
pub mod tcp_flow;
pub mod tcp_packet;
mod text;
mod value;
mod write_buffer;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use row::Row;
pub use value::Value;

use crate::args::{Args, Format, Kind};
use deferred::Aside;
use jsonl::JsonLines;
use parquet_file::ParquetFile;
use write_buffer::Place;

/// Types of columns, by the names in schemas/records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    String,
    Bool,
    U8,
    U16,
    U32,
    I64,
    F64,
}

/// A column of a record kind: name, type, whether it may be null. schemas/records holds units and meanings.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Type,
    pub nullable: bool,
}

/// A column that is never null.
pub(crate) const fn always(name: &'static str, kind: Type) -> Column {
    Column {
        name,
        kind,
        nullable: false,
    }
}

/// A column that is null when not observed.
pub(crate) const fn maybe(name: &'static str, kind: Type) -> Column {
    Column {
        name,
        kind,
        nullable: true,
    }
}

/// Name and columns of a kind, in the order of its rows.
pub fn describe(kind: Kind) -> (&'static str, &'static [Column]) {
    match kind {
        Kind::QuicConnection => ("quic_connection", quic_connection::COLUMNS),
        Kind::QuicPacket => ("quic_packet", quic_packet::COLUMNS),
        Kind::TcpFlow => ("tcp_flow", tcp_flow::COLUMNS),
        Kind::TcpPacket => ("tcp_packet", tcp_packet::COLUMNS),
        Kind::Pacing => ("pacing", pacing::COLUMNS),
    }
}

/// Why records could not be written.
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
    Aside(Aside),
}

/// One kind's place of output.
struct Output {
    kind: Kind,
    place: String,
    /// A file that gets its name when it is whole.
    part: Option<Part>,
    sink: Sink,
}

/// A file on its way to its name. It goes away when it is dropped before: what a full disk cut is of no use to anybody, and keeps
/// the disk full.
struct Part {
    path: PathBuf,
    whole: PathBuf,
    is_ours: bool,
}

impl Part {
    /// The file gets its name.
    fn finish(mut self) -> io::Result<()> {
        std::fs::rename(&self.path, &self.whole)?;
        self.is_ours = false;
        Ok(())
    }

    /// The file stays as it is.
    fn keep(mut self) {
        self.is_ours = false;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.is_ours {
            // If it cannot be removed, the error that led here says enough.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Everything that is written, or put aside for later.
pub struct Outputs {
    places: Vec<Output>,
}

impl Outputs {
    /// Opens what `args` asks for. Files are written as KIND.FORMAT.part until [`Outputs::finish`].
    pub fn open(args: &Args) -> Result<Outputs, OutputError> {
        let places = kinds(args).into_iter().map(|kind| open_one(args, kind));
        Ok(Outputs {
            places: places.collect::<Result<_, _>>()?,
        })
    }

    /// Puts rows aside until they are handed to [`Outputs::take`]: in memory, and beyond a megabyte in a file without a name.
    pub fn aside(args: &Args) -> Outputs {
        let place = display(&std::env::temp_dir());
        let places = kinds(args).into_iter().map(|kind| {
            let (name, columns) = describe(kind);
            Output {
                kind,
                place: place.clone(),
                part: None,
                sink: match args.format {
                    Format::Jsonl => Sink::Jsonl(JsonLines::new(Place::Aside(None), name, columns)),
                    Format::Parquet => Sink::Aside(Aside::new()),
                },
            }
        });
        Outputs {
            places: places.collect(),
        }
    }

    /// Writes what was put aside in `other`, which was made for the same arguments.
    pub fn take(&mut self, other: Outputs) -> Result<(), OutputError> {
        for (output, aside) in self.places.iter_mut().zip(other.places) {
            match (&mut output.sink, aside.sink) {
                (Sink::Jsonl(lines), Sink::Jsonl(aside)) => lines.append(aside),
                (Sink::Parquet(file), Sink::Aside(aside)) => {
                    aside.replay(|row| file.write_row(row))
                }
                _ => Ok(()),
            }
            .map_err(|cause| output.failed(cause))?;
        }
        Ok(())
    }

    /// Whether rows of `kind` are asked for.
    pub fn wants(&self, kind: Kind) -> bool {
        self.places.iter().any(|output| output.kind == kind)
    }

    /// Writes a row, if its kind is asked for.
    pub fn write(&mut self, kind: Kind, row: &(impl Row + ?Sized)) -> Result<(), OutputError> {
        let Some(output) = self.places.iter_mut().find(|output| output.kind == kind) else {
            return Ok(());
        };
        match &mut output.sink {
            Sink::Jsonl(lines) => lines.write_row(row),
            Sink::Parquet(file) => file.write_row(row),
            Sink::Aside(aside) => aside.write_row(row),
        }
        .map_err(|cause| output.failed(cause))
    }

    /// Writes out what is held back, as far as the format allows, so that a reader sees it.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        for output in &mut self.places {
            if let Sink::Jsonl(out) = &mut output.sink {
                out.flush().map_err(|cause| output.failed(cause))?;
            }
        }
        Ok(())
    }

    /// Ends the files. Those of captures read to their end, or to where they break, get their names; others stay `.part`. What cannot
    /// be written out whole is removed.
    pub fn finish(self, is_whole: bool) -> Result<(), OutputError> {
        for output in self.places {
            let failed = |cause| OutputError {
                place: output.place.clone(),
                cause,
            };
            match output.sink {
                Sink::Jsonl(mut out) => out.flush().map_err(failed)?,
                Sink::Parquet(file) => file.finish().map_err(failed)?,
                Sink::Aside(_) => {}
            }
            match output.part {
                Some(part) if is_whole => part.finish().map_err(failed)?,
                Some(part) => part.keep(),
                None => {}
            }
        }
        Ok(())
    }
}

impl Output {
    fn failed(&self, cause: io::Error) -> OutputError {
        OutputError {
            place: self.place.clone(),
            cause,
        }
    }
}

/// The kinds that are asked for, each once.
fn kinds(args: &Args) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for kind in &args.kind {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    kinds
}

fn open_one(args: &Args, kind: Kind) -> Result<Output, OutputError> {
    let (name, columns) = describe(kind);
    let Some(folder) = &args.out else {
        let place = Place::Shared(Box::new(io::stdout()));
        let sink = Sink::Jsonl(JsonLines::new(place, name, columns));
        return Ok(Output {
            kind,
            place: "standard output".into(),
            part: None,
            sink,
        });
    };
    let extension = if args.format == Format::Parquet {
        "parquet"
    } else {
        "jsonl"
    };
    let whole = folder.join(format!("{name}.{extension}"));
    let path = folder.join(format!("{name}.{extension}.part"));
    let place = display(&whole);
    let open = || {
        std::fs::create_dir_all(folder)?;
        let file = File::create(&path)?;
        let part = Part {
            path,
            whole,
            is_ours: true,
        };
        let sink = match args.format {
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
        }),
        Err(cause) => Err(OutputError { place, cause }),
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
