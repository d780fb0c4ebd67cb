//! The thread that writes records, so that a slow disk or pipe delays neither sending nor receiving.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::records::Record;
use crate::records::Segments;
use crate::targets::TargetList;

/// Batches of records in the queue to the thread.
const QUEUE: usize = 256;
/// How many records the thread gets at once.
const BATCH: usize = 256;
/// With more records than this beside the full queue, nothing new is sent.
const MOST_KEPT: usize = 65_536;
/// How long records may stay in buffers.
const FLUSH: Duration = Duration::from_millis(200);

/// Where records go.
pub struct Sinks<C> {
    pub json: bool,
    pub segments: Option<Segments<C>>,
}

/// The engine's side of the thread.
pub struct Writer<R> {
    /// Records that the thread has not taken yet.
    kept: Vec<R>,
    queue: SyncSender<Vec<R>>,
    thread: JoinHandle<Result<u32, Failure>>,
    failed: Arc<AtomicBool>,
}

impl<R: Record> Writer<R> {
    /// Starts the thread.
    pub fn start(list: Arc<TargetList>, sinks: Sinks<R::Columns>) -> Result<Writer<R>, Failure> {
        let (queue, records) = sync_channel(QUEUE);
        let failed = Arc::new(AtomicBool::new(false));
        let flag = failed.clone();
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || {
                let result = run(&records, &list, sinks);
                flag.store(result.is_err(), Ordering::Release);
                result
            });
        let thread =
            thread.map_err(|e| Failure::Output(format!("no thread for writing records: {e}")))?;
        Ok(Writer {
            kept: Vec::with_capacity(BATCH),
            queue,
            thread,
            failed,
        })
    }

    /// Adds a record.
    pub fn push(&mut self, record: R) {
        self.kept.push(record);
        if self.kept.len() >= BATCH {
            self.submit();
        }
    }

    /// Passes what was added to the thread, unless the queue is full.
    pub fn submit(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let records = std::mem::replace(&mut self.kept, Vec::with_capacity(BATCH));
        match self.queue.try_send(records) {
            Err(TrySendError::Full(records)) => self.kept = records,
            // The thread stops early only after an error, which `finish` returns.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Returns whether the thread has fallen so far behind that nothing new should be sent.
    pub fn is_behind(&self) -> bool {
        self.kept.len() > MOST_KEPT
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
            .unwrap_or_else(|_| Err(Failure::Output("the writing thread broke down".into())))
    }
}

fn run<R: Record>(
    records: &Receiver<Vec<R>>,
    list: &TargetList,
    sinks: Sinks<R::Columns>,
) -> Result<u32, Failure> {
    let mut segments = sinks.segments;
    if let Some(segments) = segments.as_mut().filter(|_| list.has_asn()) {
        segments.add_asn();
    }
    let mut json = sinks
        .json
        .then(|| BufWriter::with_capacity(1 << 16, io::stdout()));
    let no_json = |e: io::Error| {
        Failure::Output(format!(
            "records cannot be written to standard output: {e}; those written before it are whole lines"
        ))
    };
    let no_segment = |e: io::Error| {
        Failure::Output(format!(
            "a segment cannot be written: {e}; free some space and go on with --resume, closed \
             segments are kept"
        ))
    };
    let mut flushed = Instant::now();
    loop {
        let batch = match records.recv_timeout(FLUSH) {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        for record in &batch {
            let target = list.look(record.target());
            let row = record.row(&target);
            if let Some(json) = &mut json {
                line(json, &row).map_err(no_json)?;
            }
            if let Some(segments) = &mut segments {
                segments.push(&row, target.asn).map_err(no_segment)?;
            }
        }
        if flushed.elapsed() >= FLUSH {
            flushed = Instant::now();
            if let Some(json) = &mut json {
                json.flush().map_err(no_json)?;
            }
        }
        if let Some(segments) = &mut segments {
            segments.close_if_old().map_err(no_segment)?;
        }
    }
    if let Some(json) = &mut json {
        json.flush().map_err(no_json)?;
    }
    match &mut segments {
        Some(segments) => segments
            .close()
            .map_err(no_segment)
            .map(|()| segments.last()),
        None => Ok(0),
    }
}

fn line(out: &mut BufWriter<Stdout>, row: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, row)?;
    out.write_all(b"\n")
}
