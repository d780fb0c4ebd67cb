//! A run of the program: reads captures in parallel, writes rows, reports faults.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use firstflight_usage::{stdout, tell};
use firstflight_wire::ConnectionId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::args::Args;
use crate::capture::{CaptureName, End, Trim, read_capture};
use crate::input::{self, Stop};
use crate::output::{Destination, OutputError, Outputs};
use crate::quic::keylog::{KeyLog, Keyring};
use crate::restore::{self, restore};
use crate::trim::Copy;

/// Exit status if a capture could not be completely read, or records could not be written.
const UNREADABLE: u8 = 3;
/// Exit status after SIGINT or SIGTERM.
const INTERRUPTED: u8 = 130;

/// The reason why the program stopped.
#[derive(Debug)]
pub enum RunError {
    /// Options that contradict each other.
    Usage(String),
    /// A signal handler cannot be installed.
    Signal(io::Error),
    Output(OutputError),
    /// An output cannot be created. No capture was read.
    Place(OutputError),
    /// A key log of the command line cannot be read.
    Keys(PathBuf, io::Error),
}

impl RunError {
    /// The exit status for the error.
    pub fn exit_status(&self) -> u8 {
        match self {
            RunError::Usage(_) | RunError::Place(_) => 2,
            RunError::Keys(..) | RunError::Output(_) => UNREADABLE,
            RunError::Signal(_) => 1,
        }
    }

    /// Whether the reader of standard output has closed it.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, RunError::Output(error) if error.cause.kind() == ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Usage(what) => f.write_str(what),
            RunError::Signal(error) => write!(f, "signals cannot be handled: {error}"),
            RunError::Output(error) | RunError::Place(error) => error.fmt(f),
            RunError::Keys(path, error) => {
                write!(f, "the key log {} cannot be read: {error}", path.display())
            }
        }
    }
}

impl From<OutputError> for RunError {
    fn from(error: OutputError) -> Self {
        RunError::Output(error)
    }
}

/// Dissects the captures of `args` and returns the exit status. Reports a faulty capture on standard error, keeps its
/// records up to the fault, and continues with the next capture.
pub fn run(args: &Args) -> Result<u8, RunError> {
    if args.restore {
        return run_restore(args);
    }
    let destination = args.destination().map_err(RunError::Usage)?;
    let source_names = args.source_names().map_err(RunError::Usage)?;
    let kept_whole = args.kept_whole().map_err(RunError::Usage)?;
    if args.out.is_none() && stdout::was_closed() {
        return Err(RunError::Usage(
            "standard output is closed: redirect it to a file, or give --out DIR".into(),
        ));
    }
    let interrupted = on_signals()?;
    let job = Job {
        args,
        destination,
        source_names,
        kept_whole,
        logs: Arc::new(key_logs(args)?),
        interrupted: &interrupted,
        given_up: AtomicBool::new(false),
    };
    let mut outputs = Outputs::open(&job.destination).map_err(RunError::Place)?;
    let mut status = 0;
    let mut finish_capture = |end: Result<(), End>, outputs: &mut Outputs| {
        match end {
            Ok(()) => {}
            Err(End::Broken(error)) => {
                tell!("firstflight-dissect: {error}");
                status = UNREADABLE;
            }
            Err(End::NoKeys) => status = UNREADABLE,
            Err(End::Interrupted) => status = INTERRUPTED,
            Err(End::Output(error)) => return Err(error),
        }
        outputs.flush()
    };
    if args.captures.len() == 1 {
        let end = job.capture(0, &mut outputs);
        finish_capture(end, &mut outputs)?;
    } else {
        job.in_parallel(|end, rows| {
            outputs.take(rows)?;
            finish_capture(end, &mut outputs)
        })?;
    }
    if interrupted.load(Ordering::Relaxed) {
        outputs.finish(false)?;
        tell!("firstflight-dissect: interrupted; the records so far are written");
        return Ok(INTERRUPTED);
    }
    outputs.finish(true)?;
    Ok(status)
}

/// Restores the padding of the single capture of `args`, writes it to standard output, and returns the exit status.
fn run_restore(args: &Args) -> Result<u8, RunError> {
    let usage = |what: &str| Err(RunError::Usage(what.into()));
    let [path] = args.captures.as_slice() else {
        return usage("--restore takes one capture at a time: give them one after the other");
    };
    if stdout::was_closed() || io::stdout().is_terminal() {
        return usage(
            "--restore writes a capture to standard output: redirect it, as in > whole.pcap",
        );
    }
    let interrupted = on_signals()?;
    match restore(path, io::stdout().lock(), &interrupted) {
        Ok(()) => Ok(0),
        Err(restore::End::Broken(error)) => {
            tell!("firstflight-dissect: {error}");
            Ok(UNREADABLE)
        }
        Err(restore::End::Interrupted) => {
            tell!("firstflight-dissect: interrupted; the frames so far are written");
            Ok(INTERRUPTED)
        }
        Err(restore::End::Output(cause)) => Err(RunError::Output(OutputError {
            place: "standard output".into(),
            cause,
        })),
    }
}

/// Returns a flag that SIGINT and SIGTERM set.
fn on_signals() -> Result<Arc<AtomicBool>, RunError> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second signal terminates the program immediately. The program handles the first signal only at the next
        // frame, and standard input may be idle.
        flag::register_conditional_shutdown(
            signal,
            i32::from(INTERRUPTED),
            Arc::clone(&interrupted),
        )
        .and_then(|_| flag::register(signal, Arc::clone(&interrupted)))
        .map_err(RunError::Signal)?;
    }
    Ok(interrupted)
}

/// The state that all captures in a run share.
struct Job<'a> {
    args: &'a Args,
    destination: Destination,
    source_names: Vec<String>,
    /// The connections that stay complete in trimmed copies.
    kept_whole: HashSet<ConnectionId>,
    logs: Arc<Vec<KeyLog>>,
    interrupted: &'a AtomicBool,
    /// Rows cannot be written any more. The remaining rows of captures are dropped.
    given_up: AtomicBool,
}

impl Job<'_> {
    /// Dissects captures on all cores. Calls `done` with the result and the rows of each, in the order of the command
    /// line.
    fn in_parallel(
        &self,
        mut done: impl FnMut(Result<(), End>, Outputs) -> Result<(), OutputError>,
    ) -> Result<(), OutputError> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let captures = self.args.captures.len();
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..cores.min(captures) {
                let sender = sender.clone();
                let next = &next;
                scope.spawn(move || {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        if i >= captures || self.is_over() {
                            return;
                        }
                        let mut rows = Outputs::aside(&self.destination);
                        let end = self.capture(i, &mut rows);
                        if sender.send((i, end, rows)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let mut waiting = BTreeMap::new();
            let mut turn = 0;
            for (i, end, rows) in receiver {
                waiting.insert(i, (end, rows));
                while let Some((end, rows)) = waiting.remove(&turn) {
                    turn += 1;
                    if let Err(error) = done(end, rows) {
                        self.given_up.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            // After an interruption: the captures after one that was not started.
            waiting
                .into_values()
                .try_for_each(|(end, rows)| done(end, rows))
        })
    }

    fn is_over(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.given_up.load(Ordering::Relaxed)
    }

    /// Dissects capture `i` of the command line.
    fn capture(&self, i: usize, outputs: &mut Outputs) -> Result<(), End> {
        let path = &self.args.captures[i];
        let shown = input::name(path);
        let source = input::open(path).map_err(End::Broken)?;
        let mut keyring = Keyring::new(&self.logs);
        let beside = keyring.open_beside(path);
        if let Err(error) = &beside {
            tell!("firstflight-dissect: {shown}: the key log beside it cannot be read: {error}");
        }
        let name = CaptureName {
            shown: &shown,
            source_file: &self.source_names[i],
        };
        // Without this log's keys, a copy would omit bytes that they decrypt.
        let trim = match &beside {
            Ok(()) => self.trim(path)?,
            Err(_) => None,
        };
        let end = read_capture(
            self.args,
            name,
            keyring,
            source,
            outputs,
            &|| self.is_over(),
            trim,
        );
        end.map_err(|stop| match stop {
            Stop::Capture(error) => End::Broken(error),
            Stop::Visitor(end) => end,
        })?;
        beside.map_err(|_| End::NoKeys)
    }
}

impl Job<'_> {
    /// The trimmed copy of the capture at `path`, if it is requested.
    fn trim(&self, path: &Path) -> Result<Option<Trim<'_>>, End> {
        let Some(folder) = &self.args.trim else {
            return Ok(None);
        };
        let copy = fs::create_dir_all(folder).and_then(|()| Copy::create(folder, path));
        let copy = copy.map_err(|cause| {
            End::Output(OutputError {
                place: format!("a trimmed copy in {}", folder.display()),
                cause,
            })
        })?;
        Ok(Some(Trim {
            copy,
            except: &self.kept_whole,
        }))
    }
}

fn key_logs(args: &Args) -> Result<Vec<KeyLog>, RunError> {
    let open =
        |path: &PathBuf| KeyLog::open(path).map_err(|error| RunError::Keys(path.clone(), error));
    args.keys.iter().map(open).collect()
}
