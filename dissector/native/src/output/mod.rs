//! Rows of record kinds, as JSON lines or Parquet.

pub mod frame_details;
mod jsonl;
pub mod pacing;
pub mod parameters;
mod parquet_file;
pub mod quic_connection;
pub mod quic_packet;
mod spool;
pub mod tcp_flow;
pub mod tcp_packet;
mod value;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use value::Value;

use crate::args::{Args, Format, Kind};
use jsonl::JsonLines;

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
    Parquet(Box<parquet_file::ParquetFile>),
}

/// One kind's place of output.
struct Output {
    place: String,
    /// Temporary and final path of a file; renamed when whole.
    paths: Option<(PathBuf, PathBuf)>,
    sink: Sink,
}

/// Everything that is written, or put aside for later.
pub struct Outputs {
    kinds: Vec<Kind>,
    to: To,
}

enum To {
    Places(Vec<Output>),
    Aside(spool::Spool),
}

impl Outputs {
    /// Opens what `args` asks for. Files are written as KIND.FORMAT.part until [`Outputs::finish`].
    pub fn open(args: &Args) -> Result<Outputs, OutputError> {
        let kinds = kinds(args);
        let places = kinds.iter().map(|&kind| open_one(args, kind));
        let to = To::Places(places.collect::<Result<_, _>>()?);
        Ok(Outputs { kinds, to })
    }

    /// Puts rows aside until they are handed to [`Outputs::take`].
    pub fn aside(args: &Args) -> Outputs {
        Outputs {
            kinds: kinds(args),
            to: To::Aside(spool::Spool::default()),
        }
    }

    /// Writes what was put aside in `other`.
    pub fn take(&mut self, other: Outputs) -> Result<(), OutputError> {
        match other.to {
            To::Aside(spool) => spool.replay(&other.kinds, |kind, row| self.write(kind, &row)),
            To::Places(_) => Ok(()),
        }
    }

    /// Whether rows of `kind` are asked for.
    pub fn wants(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Writes a row, if its kind is asked for.
    pub fn write(&mut self, kind: Kind, row: &[Value<'_>]) -> Result<(), OutputError> {
        let Some(place) = self.kinds.iter().position(|asked| *asked == kind) else {
            return Ok(());
        };
        let output = match &mut self.to {
            To::Places(places) => places.get_mut(place),
            To::Aside(spool) => return Ok(spool.push(place as u8, row)?),
        };
        let Some(output) = output else {
            return Ok(());
        };
        debug_assert_eq!(row.len(), describe(kind).1.len());
        match &mut output.sink {
            Sink::Jsonl(lines) => lines.write_row(row),
            Sink::Parquet(file) => file.write_row(row),
        }
        .map_err(|cause| OutputError {
            place: output.place.clone(),
            cause,
        })
    }

    /// Writes out what is held back, as far as the format allows, so that a reader sees it.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        let To::Places(places) = &mut self.to else {
            return Ok(());
        };
        for output in places {
            if let Sink::Jsonl(out) = &mut output.sink {
                out.flush().map_err(|cause| OutputError {
                    place: output.place.clone(),
                    cause,
                })?;
            }
        }
        Ok(())
    }

    /// Ends the files. Those of captures read to their end, or to where they break, get their names; others stay `.part`.
    pub fn finish(self, is_whole: bool) -> Result<(), OutputError> {
        let To::Places(places) = self.to else {
            return Ok(());
        };
        for output in places {
            let failed = |cause| OutputError {
                place: output.place.clone(),
                cause,
            };
            match output.sink {
                Sink::Jsonl(mut out) => out.flush().map_err(failed)?,
                Sink::Parquet(file) => file.finish().map_err(failed)?,
            }
            if let Some((part, whole)) = output.paths.as_ref().filter(|_| is_whole) {
                std::fs::rename(part, whole).map_err(failed)?;
            }
        }
        Ok(())
    }
}

impl From<io::Error> for OutputError {
    /// Where rows are put aside.
    fn from(cause: io::Error) -> Self {
        OutputError {
            place: display(&std::env::temp_dir()),
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
        let sink = Sink::Jsonl(JsonLines::new(Box::new(io::stdout()), name, columns));
        return Ok(Output {
            place: "standard output".into(),
            paths: None,
            sink,
        });
    };
    let extension = if args.format == Format::Parquet {
        "parquet"
    } else {
        "jsonl"
    };
    let whole = folder.join(format!("{name}.{extension}"));
    let part = folder.join(format!("{name}.{extension}.part"));
    let open = || {
        std::fs::create_dir_all(folder)?;
        let file = File::create(&part)?;
        Ok(match args.format {
            Format::Jsonl => Sink::Jsonl(JsonLines::new(Box::new(file), name, columns)),
            Format::Parquet => Sink::Parquet(Box::new(parquet_file::ParquetFile::new(
                file, name, columns,
            )?)),
        })
    };
    let place = display(&whole);
    match open() {
        Ok(sink) => Ok(Output {
            place,
            paths: Some((part, whole)),
            sink,
        }),
        Err(cause) => Err(OutputError { place, cause }),
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
