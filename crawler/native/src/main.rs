//! `firstflight-rib`: reads routing tables for the as_data stage.

#![warn(clippy::print_stderr)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use firstflight_rib::database;
use firstflight_rib::failure::Failure;
use firstflight_rib::table::Table;
use firstflight_usage::{stdout, tell};

const NAME: &str = "firstflight-rib";

/// Converts routing tables (MRT table dumps, RFC 6396) to a pyasn text database of prefixes with their origin AS
///
/// Prints counts as one JSON object.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    version,
    after_help = "Example: firstflight-rib rib.20240807.0200.bz2 --out rib.pyasn | jq .counts"
)]
struct Args {
    /// Table dumps: plain, bzip2 or gzip; uses the first route to a prefix
    #[arg(required = true, value_name = "TABLE")]
    tables: Vec<PathBuf>,

    /// File for the database; unchanged if a table is damaged or incomplete
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Source of the tables, for the database's first lines (default: their names)
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
}

fn main() -> ExitCode {
    let args: Args = match firstflight_usage::parse(NAME, NAME) {
        Ok(args) => args,
        Err(status) => return status,
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell!("{NAME}: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    if stdout::was_closed() {
        return Err(Failure::Use(
            "standard output is closed, but receives the counts: redirect it to a file".to_owned(),
        ));
    }
    let mut table = Table::default();
    for path in &args.tables {
        table.read(path)?;
    }
    let source = args.source.clone().unwrap_or_else(|| names(&args.tables));
    database::write(&table, &source, &args.out)?;
    match writeln!(io::stdout(), "{}", table.summary()) {
        // The reader has exited (`| head`): not an error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::unwritten(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

fn names(tables: &[PathBuf]) -> String {
    let names: Vec<_> = tables
        .iter()
        .filter_map(|path| path.file_name())
        .map(|name| name.to_string_lossy())
        .collect();
    names.join(", ")
}
