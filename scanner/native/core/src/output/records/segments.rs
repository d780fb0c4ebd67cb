//! Segments: Arrow IPC files with the records of at most a second. A file is complete once it has its final
//! name. This module also finds the targets that earlier segments answer.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::builder::UInt32Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};

use crate::Failure;
use crate::input::targets::{FIRST_PLANNED, TargetList};
use crate::output::records::Columns;
use crate::output::records::Outcome;

/// Age at which a segment is closed. Before that, a record may have waited 400 ms for the writing thread.
const MAX_AGE: Duration = Duration::from_millis(600);

/// The open segment, in memory until it is closed.
pub struct Segments<C> {
    dir: PathBuf,
    number: u32,
    columns: C,
    /// Origin AS of each row, from the list; `None`: the list has no such column.
    asns: Option<UInt32Builder>,
    opened: Option<Instant>,
}

/// Returns the segments in `dir` by number.
fn existing(dir: &Path) -> io::Result<BTreeMap<u32, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let number = name
            .strip_prefix("seg-")
            .and_then(|rest| rest.strip_suffix(".arrow"));
        if let Some(number) = number.and_then(|digits| digits.parse().ok()) {
            found.insert(number, path);
        }
    }
    Ok(found)
}

/// Targets that earlier segments answer.
pub struct Answered<O> {
    /// By target number in the list.
    pub done: Vec<bool>,
    /// Outcome of each record.
    pub outcomes: Vec<O>,
}

/// Why a batch of rows from a closed segment is refused.
pub enum Refused {
    /// It is not the content of a segment of this kind.
    Unreadable(String),
    /// It belongs to another run. The text is a complete error message.
    WrongUse(String),
}

impl<O: Outcome> Answered<O> {
    fn add(&mut self, list: &TargetList, path: &Path, batch: &RecordBatch) -> Result<(), Refused> {
        let text = |name: &str| {
            batch
                .column_by_name(name)
                .and_then(|column| column.as_string_opt::<i32>())
        };
        let targets = batch
            .column_by_name("target")
            .and_then(|c| c.as_primitive_opt::<UInt32Type>());
        let (Some(targets), Some(ips), Some(domains), Some(outcomes)) =
            (targets, text("ip"), text("domain"), text("outcome"))
        else {
            return Err(Refused::Unreadable("columns are missing".into()));
        };
        let listed = |i: &usize| targets.value(*i) < FIRST_PLANNED;
        for i in (0..batch.num_rows()).filter(listed) {
            let index = list.at_line(targets.value(i)).filter(|index| {
                let target = list.get(*index);
                target.ip_text == ips.value(i) && target.domain == domains.value(i)
            });
            let Some(index) = index else {
                return Err(Refused::WrongUse(format!(
                    "--resume: line {} of the list differs from the target in {}; give the list of the first run",
                    targets.value(i),
                    path.display()
                )));
            };
            if !std::mem::replace(&mut self.done[index as usize], true) {
                let outcome = O::from_name(outcomes.value(i));
                self.outcomes
                    .push(outcome.ok_or_else(|| Refused::Unreadable("unknown outcome".into()))?);
            }
        }
        Ok(())
    }
}

impl<C: Columns> Segments<C> {
    /// Opens `dir`, which is created if necessary. Existing segments are an error unless `resume`.
    pub fn open(dir: &Path, resume: bool) -> Result<Segments<C>, Failure> {
        let wrong = |e: io::Error| {
            Failure::Usage(format!(
                "--segments {}: {e}; name a folder to write to",
                dir.display()
            ))
        };
        fs::create_dir_all(dir).map_err(wrong)?;
        let before = existing(dir).map_err(wrong)?;
        if !resume && !before.is_empty() {
            return Err(Failure::Usage(format!(
                "--segments {} holds segments already: add --resume to continue with them, or name \
                 another folder",
                dir.display()
            )));
        }
        let number = before.last_key_value().map_or(0, |(number, _)| *number);
        Ok(Segments {
            dir: dir.to_owned(),
            number,
            columns: C::default(),
            asns: None,
            opened: None,
        })
    }

    /// Reads the closed segments, oldest first, and calls `each` with every batch of rows. `again` is the
    /// remedy in messages about a file that cannot be read.
    pub fn read_closed(
        &self,
        again: &str,
        mut each: impl FnMut(&Path, &RecordBatch) -> Result<(), Refused>,
    ) -> Result<(), Failure> {
        let unreadable = |path: &Path, why: String| {
            Failure::Input(format!(
                "segment {} cannot be read: {why}; {again}",
                path.display()
            ))
        };
        let files = existing(&self.dir).map_err(|e| unreadable(&self.dir, e.to_string()))?;
        for path in files.values() {
            let file = File::open(path).map_err(|e| unreadable(path, e.to_string()))?;
            let reader =
                FileReader::try_new(file, None).map_err(|e| unreadable(path, e.to_string()))?;
            for batch in reader {
                let batch = batch.map_err(|e| unreadable(path, e.to_string()))?;
                each(path, &batch).map_err(|refused| match refused {
                    Refused::Unreadable(why) => unreadable(path, why),
                    Refused::WrongUse(sentence) => Failure::Usage(sentence),
                })?;
            }
        }
        Ok(())
    }

    /// Returns which targets of `list` the closed segments answer.
    pub fn answered<O: Outcome>(&self, list: &TargetList) -> Result<Answered<O>, Failure> {
        let mut answered = Answered {
            done: vec![false; list.len()],
            outcomes: Vec::new(),
        };
        self.read_closed("move it away to probe its targets again", |path, batch| {
            answered.add(list, path, batch)
        })?;
        Ok(answered)
    }

    /// Adds a last column `asn` (uint32, nullable) to all following segments.
    pub fn add_asn(&mut self) {
        self.asns.get_or_insert_default();
    }

    /// Adds a row for a target in AS `asn` (0: unknown).
    pub fn push(&mut self, row: &C::Row<'_>, asn: u32) {
        self.opened.get_or_insert_with(Instant::now);
        self.columns.push(row);
        if let Some(asns) = &mut self.asns {
            asns.append_option((asn != 0).then_some(asn));
        }
    }

    /// Returns whether the open segment has the most rows allowed.
    pub fn is_full(&self) -> bool {
        self.columns.is_full()
    }

    /// Returns whether the open segment is old enough to be closed.
    pub fn is_old(&self) -> bool {
        self.opened
            .is_some_and(|opened| opened.elapsed() >= MAX_AGE)
    }

    /// Returns the time until the open segment is old enough; `None`: no segment is open.
    pub fn closes_in(&self) -> Option<Duration> {
        self.opened
            .map(|opened| MAX_AGE.saturating_sub(opened.elapsed()))
    }

    /// Writes the open segment to a temporary file and renames it.
    pub fn close(&mut self) -> io::Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let schema = C::schema();
        let batch = self
            .columns
            .finish(schema.clone())
            .map_err(io::Error::other)?;
        let batch = match &mut self.asns {
            Some(asns) => with_asn(&batch, asns.finish()).map_err(io::Error::other)?,
            None => batch,
        };
        let path = self.dir.join(format!("seg-{:06}.arrow", self.number + 1));
        let part = path.with_extension("arrow.part");
        let written = write(&part, &batch).and_then(|()| fs::rename(&part, &path));
        if written.is_err() {
            // An incomplete file only takes space.
            let _ = fs::remove_file(&part);
            return written;
        }
        self.number += 1;
        self.opened = None;
        Ok(())
    }

    /// Returns the number of the last closed segment.
    pub fn last(&self) -> u32 {
        self.number
    }
}

/// Returns `batch` with the column `asn` after the others.
fn with_asn(batch: &RecordBatch, asns: UInt32Array) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("asn", DataType::UInt32, true)));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(asns));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn write(path: &Path, batch: &RecordBatch) -> io::Result<()> {
    let as_io = |e: ArrowError| match e {
        ArrowError::IoError(_, e) => e,
        other => io::Error::other(other),
    };
    let mut writer =
        FileWriter::try_new(BufWriter::new(File::create(path)?), &batch.schema()).map_err(as_io)?;
    writer.write(batch).map_err(as_io)?;
    writer.finish().map_err(as_io)?;
    writer.into_inner().map_err(as_io)?.flush()
}

#[cfg(test)]
mod tests;
