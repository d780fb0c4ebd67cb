//! The thread that writes records, so that a slow disk or pipe delays neither sending nor receiving.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firstflight_records::write_json;

use crate::Failure;
use crate::output::records::{Columns, Rows, Segments};

/// Batches of records in the queue to the thread.
const QUEUE: usize = 256;
/// How long records may stay in buffers.
const FLUSH: Duration = Duration::from_millis(200);

/// Destinations of records.
pub struct Sinks<C, S = ()> {
    pub json: bool,
    pub segments: Option<Segments<C>>,
    pub sides: S,
}

/// Rows of other kinds that records bring with them. Each kind has separate segments.
pub trait SideTables: Send + 'static {
    /// Closes the open segments. They are closed before the segment of the records, so that everything that
    /// belongs to a stored record is stored.
    fn close(&mut self) -> io::Result<()>;
}

/// No rows of other kinds.
impl SideTables for () {
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The engine's side of the writing thread.
pub struct Writer<R> {
    /// Records that the thread has not taken yet.
    kept: Vec<R>,
    queue: SyncSender<Vec<R>>,
    thread: JoinHandle<Result<u32, Failure>>,
    failed: Arc<AtomicBool>,
}

impl<R: Rows> Writer<R> {
    /// Starts the thread. `context`: additional data from which rows are made.
    pub fn start(
        context: R::Context,
        sinks: Sinks<R::Columns, R::Sides>,
    ) -> Result<Writer<R>, Failure> {
        let (queue, records) = sync_channel(QUEUE);
        let failed = Arc::new(AtomicBool::new(false));
        let flag = failed.clone();
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || {
                let result = run(&records, &context, sinks);
                flag.store(result.is_err(), Ordering::Release);
                result
            });
        let thread = thread
            .map_err(|e| Failure::Output(format!("cannot start a thread to write records: {e}")))?;
        Ok(Writer {
            kept: Vec::with_capacity(R::BATCH),
            queue,
            thread,
            failed,
        })
    }

    /// Adds a record.
    pub fn push(&mut self, record: R) {
        self.kept.push(record);
        if self.kept.len() >= R::BATCH {
            self.submit();
        }
    }

    /// Passes the added records to the thread, unless the queue is full. Returns whether there were any.
    pub fn submit(&mut self) -> bool {
        if self.kept.is_empty() {
            return false;
        }
        let records = std::mem::replace(&mut self.kept, Vec::with_capacity(R::BATCH));
        match self.queue.try_send(records) {
            Err(TrySendError::Full(records)) => self.kept = records,
            // The thread stops early only after an error, which `finish` returns.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
        true
    }

    /// Returns whether the thread is so slow that no new probe should start.
    pub fn is_behind(&self) -> bool {
        self.kept.len() > R::MOST_KEPT
    }

    /// Returns whether records can no longer be written.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Waits until everything is written; returns the number of the last segment.
    pub fn finish(self) -> Result<u32, Failure> {
        // The thread stops early only after an error, which is returned below.
        let _ = self.queue.send(self.kept);
        drop(self.queue);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Failure::Output("the writing thread panicked".into())))
    }
}

/// Receives the rows of records, on the writing thread.
pub struct RowSink<C, S = ()> {
    json: Option<BufWriter<Stdout>>,
    segments: Option<Segments<C>>,
    pub sides: S,
}

impl<C: Columns, S: SideTables> RowSink<C, S> {
    /// Adds a row. `asn`: the target's AS (0: unknown), if segments have that column.
    pub fn row(&mut self, row: &C::Row<'_>, asn: u32) -> Result<(), Failure> {
        if let Some(json) = &mut self.json {
            line(json, row).map_err(no_json)?;
        }
        if let Some(segments) = &mut self.segments {
            segments.push(row, asn);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.json
            .as_mut()
            .map_or(Ok(()), |json| json.flush().map_err(no_json))
    }

    /// Returns how long the thread may wait for more records before it has to write; `None`: there is no data
    /// to write.
    fn wait(&self, flushed: Instant) -> Option<Duration> {
        let buffered = |json: &&BufWriter<Stdout>| !json.buffer().is_empty();
        let line = self.json.as_ref().filter(buffered);
        let line = line.map(|_| FLUSH.saturating_sub(flushed.elapsed()));
        let segment = self.segments.as_ref().and_then(Segments::closes_in);
        line.into_iter().chain(segment).min()
    }

    /// Closes the segment if `due` returns true.
    fn close(&mut self, due: impl FnOnce(&Segments<C>) -> bool) -> Result<(), Failure> {
        let Some(segments) = &mut self.segments else {
            return Ok(());
        };
        if due(segments) {
            self.sides.close().map_err(no_segment)?;
            segments.close().map_err(no_segment)
        } else {
            Ok(())
        }
    }
}

fn no_json(e: io::Error) -> Failure {
    Failure::Output(format!(
        "records cannot be written to standard output: {e}; the lines written before are complete"
    ))
}

fn no_segment(e: io::Error) -> Failure {
    Failure::Output(format!(
        "a segment cannot be written: {e}; free some space and continue with --resume; closed segments are kept"
    ))
}

fn run<R: Rows>(
    records: &Receiver<Vec<R>>,
    context: &R::Context,
    sinks: Sinks<R::Columns, R::Sides>,
) -> Result<u32, Failure> {
    let mut sink = RowSink {
        json: sinks
            .json
            .then(|| BufWriter::with_capacity(1 << 16, io::stdout())),
        segments: sinks.segments,
        sides: sinks.sides,
    };
    if let Some(segments) = sink.segments.as_mut().filter(|_| R::has_asn(context)) {
        segments.add_asn();
    }
    let mut flushed = Instant::now();
    loop {
        let received = match sink.wait(flushed) {
            Some(wait) => records.recv_timeout(wait),
            None => records.recv().map_err(RecvTimeoutError::from),
        };
        let batch = match received {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        for record in &batch {
            record.write(context, &mut sink)?;
            // Between two records, so that all rows in a record are in the same segment.
            sink.close(Segments::is_full)?;
        }
        if flushed.elapsed() >= FLUSH {
            flushed = Instant::now();
            sink.flush()?;
        }
        sink.close(Segments::is_old)?;
    }
    sink.flush()?;
    sink.close(|_| true)?;
    Ok(sink.segments.map_or(0, |segments| segments.last()))
}

fn line(out: &mut BufWriter<Stdout>, row: &impl serde::Serialize) -> io::Result<()> {
    write_json(&mut *out, row)?;
    out.write_all(b"\n")
}
