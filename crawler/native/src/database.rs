//! Writes pyasn's text database: comment lines with `;`, then prefix, tab, AS number.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::table::Table;

/// Writes the table to `path` atomically: a failure leaves the file unchanged.
pub fn write(table: &Table, source: &str, path: &Path) -> Result<(), Failure> {
    let part = part_of(path);
    let written = lines(table, source, &part).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        // The file may not exist. Report only the first error.
        let _ = fs::remove_file(&part);
        Failure::unwritten(path, &error)
    })
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{}.part", std::process::id()));
    name.into()
}

fn lines(table: &Table, source: &str, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, File::create(path)?);
    let source = source.replace(|c: char| c.is_control() || !c.is_ascii(), "?");
    writeln!(out, "; IP-ASN32-DAT file\n; source: {source}")?;
    writeln!(out, "; prefixes: {}", table.origins.len())?;
    for ((address, bits), origin) in &table.origins {
        match address {
            // The C library, and therefore pyasn, writes ::a.b.c.d (deprecated by RFC 4291 2.5.5.1) like this. Rust
            // does not.
            IpAddr::V6(v6) if v6.segments()[..6] == [0; 6] && v6.segments()[6] != 0 => {
                let [.., a, b, c, d] = v6.octets();
                writeln!(out, "::{a}.{b}.{c}.{d}/{bits}\t{origin}")?;
            }
            _ => writeln!(out, "{address}/{bits}\t{origin}")?,
        }
    }
    out.into_inner()?.sync_all()
}
