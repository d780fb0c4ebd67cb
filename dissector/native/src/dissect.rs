//! The whole of a call: captures in, several at a time, rows out, what went wrong.

use std::array;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::args::{Args, Format, Kind};
use crate::connection::{Arrival, Connection, Counters, Limits, Table};
use crate::flows::Flows;
use crate::fragments::Fragments;
use crate::input::{self, CaptureError, Element, Frame, Stop};
use crate::ip::{self, Content, IpLength};
use crate::keylog::{KeyLog, Keyring};
use crate::link;
use crate::output::quic_connection::ConnectionRow;
use crate::output::quic_packet::{HeaderSeen, PacketSeen};
use crate::output::{OutputError, Outputs, quic_packet};
use crate::timeline::Windows;

/// Exit status when some capture could not be read to its end.
const UNREADABLE: u8 = 3;
/// Exit status after SIGINT or SIGTERM.
const INTERRUPTED: u8 = 130;
/// How long a closed connection is kept for late packets.
const CLOSING_NS: i64 = 10_000_000_000;
const NS_PER_MS: i64 = 1_000_000;
/// Frames whose connections are fetched together: with more, the first would be gone from the cache before their turn.
const LOOK_AHEAD: usize = 16;

/// Why nothing more was done.
#[derive(Debug)]
pub enum RunError {
    /// Options that contradict each other.
    Usage(&'static str),
    /// Signals cannot be waited for.
    Signal(io::Error),
    Output(OutputError),
    /// The place for the records cannot be made: nothing was done.
    Place(OutputError),
    /// A key log that was asked for cannot be read.
    Keys(PathBuf, io::Error),
}

impl RunError {
    /// Exit status that goes with it.
    pub fn exit_status(&self) -> u8 {
        match self {
            RunError::Usage(_) | RunError::Keys(..) | RunError::Place(_) => 2,
            RunError::Signal(_) | RunError::Output(_) => 1,
        }
    }

    /// Whether the reader of standard output has gone.
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

/// Dissects the captures of `args` and gives the exit status. A capture that breaks is named on standard error, its records
/// up to there are kept, and the next one is read.
pub fn run(args: &Args) -> Result<u8, RunError> {
    if args.format == Format::Parquet && args.out.is_none() {
        return Err(RunError::Usage("--format parquet needs --out DIR"));
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&interrupted)).map_err(RunError::Signal)?;
    }
    let logs = Arc::new(key_logs(args)?);
    let mut outputs = Outputs::open(args).map_err(RunError::Place)?;
    let mut status = 0;
    let mut ended = |end: Result<(), End>, outputs: &mut Outputs| {
        match end {
            Ok(()) => {}
            Err(End::Broken(error)) => {
                eprintln!("firstflight-dissect: {error}");
                status = UNREADABLE;
            }
            Err(End::Interrupted) => status = INTERRUPTED,
            Err(End::Output(error)) => return Err(error),
        }
        outputs.flush()
    };
    if let [path] = &args.captures[..] {
        let end = capture(args, &logs, path, &mut outputs, &interrupted);
        ended(end, &mut outputs)?;
    } else {
        in_parallel(args, &logs, &interrupted, |end, rows| {
            outputs.take(rows)?;
            ended(end, &mut outputs)
        })?;
    }
    if interrupted.load(Ordering::Relaxed) {
        outputs.finish(false)?;
        eprintln!("firstflight-dissect: interrupted; the records so far are written");
        return Ok(INTERRUPTED);
    }
    outputs.finish(true)?;
    Ok(status)
}

/// Dissects captures on all cores. `done` gets how each ended and its rows, in the order of the command line.
fn in_parallel(
    args: &Args,
    logs: &Arc<Vec<KeyLog>>,
    interrupted: &AtomicBool,
    mut done: impl FnMut(Result<(), End>, Outputs) -> Result<(), OutputError>,
) -> Result<(), OutputError> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let given_up = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..cores.min(args.captures.len()) {
            let sender = sender.clone();
            let (next, given_up) = (&next, &given_up);
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = args.captures.get(i) else {
                        return;
                    };
                    if interrupted.load(Ordering::Relaxed) || given_up.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut rows = Outputs::aside(args);
                    let end = capture(args, logs, path, &mut rows, interrupted);
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
                    given_up.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        // Interrupted: what came after a capture that was not begun.
        waiting
            .into_values()
            .try_for_each(|(end, rows)| done(end, rows))
    })
}

/// Frames of a capture that led to no datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Skipped {
    frames: u64,
    unknown_link: u64,
    untimed: u64,
    broken: u64,
    fragments: u64,
}

/// Why a capture was not read to its end.
pub enum End {
    Broken(CaptureError),
    Interrupted,
    Output(OutputError),
}

fn key_logs(args: &Args) -> Result<Vec<KeyLog>, RunError> {
    let open =
        |path: &PathBuf| KeyLog::open(path).map_err(|error| RunError::Keys(path.clone(), error));
    args.keys.iter().map(open).collect()
}

fn capture(
    args: &Args,
    logs: &Arc<Vec<KeyLog>>,
    path: &Path,
    outputs: &mut Outputs,
    interrupted: &AtomicBool,
) -> Result<(), End> {
    let name = input::name(path);
    let source = input::open(path).map_err(End::Broken)?;
    let keyring = Keyring::new(logs, path).unwrap_or_else(|error| {
        eprintln!("firstflight-dissect: {name}: the key log beside it cannot be read: {error}");
        Keyring::default()
    });
    let end = read_capture(args, &name, keyring, source, outputs, interrupted);
    end.map_err(|stop| match stop {
        Stop::Capture(error) => End::Broken(error),
        Stop::Visitor(end) => end,
    })
}

/// Dissects the capture in `source` down to its rows, as far as it can be read.
pub fn read_capture(
    args: &Args,
    name: &str,
    keyring: Keyring,
    source: impl Read + Send,
    outputs: &mut Outputs,
    interrupted: &AtomicBool,
) -> Result<(), Stop<End>> {
    let mut run = CaptureRun {
        args,
        name,
        table: Table::new(limits(args), keyring),
        outputs,
        flows: Flows::new(args, name),
        wants_quic: args
            .kind
            .iter()
            .any(|kind| [Kind::QuicConnection, Kind::QuicPacket].contains(kind)),
        skipped: Skipped::default(),
        fragments: Fragments::default(),
    };
    let end = input::read(name, source, |element| {
        if interrupted.load(Ordering::Relaxed) {
            return Err(End::Interrupted);
        }
        match element {
            Element::Frames(frames) => run.frames(frames).map_err(End::Output),
            Element::Untimed => {
                run.skipped.frames += 1;
                run.skipped.untimed += 1;
                Ok(())
            }
            Element::KeyLog(text) => {
                run.table.key_log(text);
                Ok(())
            }
        }
    });
    // What came before a broken place is kept.
    let failed = |error| Stop::Visitor(End::Output(error));
    while let Some(connection) = run.table.drain() {
        run.write(&connection).map_err(failed)?;
    }
    run.flows.write_rest(run.outputs).map_err(failed)?;
    run.table.counters.evicted += run.flows.evicted();
    run.table.counters.late += run.flows.late();
    run.skipped.fragments += run.fragments.left();
    tell(name, &run.skipped, &run.table.counters);
    end
}

fn limits(args: &Args) -> Limits {
    let windows = Windows {
        answer_ns: i64::from(args.answer_window_ms) * NS_PER_MS,
        settle_ns: i64::from(args.settle_ms) * NS_PER_MS,
    };
    Limits {
        windows,
        // A connection must stay at least as long as its first answer is awaited.
        idle_ns: (i64::from(args.idle_s) * 1000 * NS_PER_MS).max(windows.answer_ns),
        closing_ns: CLOSING_NS.max(windows.answer_ns),
        max_connections: args.max_connections as usize,
        ports: args.quic_port.clone(),
    }
}

/// Says on standard error what a capture held beside connections, if it held anything noteworthy.
fn tell(name: &str, skipped: &Skipped, counters: &Counters) {
    let parts = [
        (skipped.unknown_link, "frames of an unknown link type"),
        (
            skipped.untimed,
            "frames without a time (Simple Packet Blocks)",
        ),
        (skipped.broken, "broken IP, UDP or TCP headers"),
        (
            skipped.fragments,
            "IP fragments of datagrams that are not whole",
        ),
        (
            counters.late,
            "late packets of connections written out before",
        ),
        (counters.other_udp, "UDP datagrams of no known connection"),
        (
            counters.evicted,
            "connections written out early (--max-connections)",
        ),
    ];
    let said: Vec<String> = parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    if !said.is_empty() {
        eprintln!(
            "firstflight-dissect: {name}: of {} frames, {}",
            skipped.frames,
            said.join(", ")
        );
    }
}

struct CaptureRun<'a> {
    args: &'a Args,
    name: &'a str,
    table: Table,
    outputs: &'a mut Outputs,
    flows: Flows<'a>,
    wants_quic: bool,
    skipped: Skipped,
    fragments: Fragments,
}

impl CaptureRun<'_> {
    /// Takes frames that follow each other.
    fn frames(&mut self, frames: &[Frame<'_>]) -> Result<(), OutputError> {
        for frames in frames.chunks(LOOK_AHEAD) {
            let contents: [Content<'_>; LOOK_AHEAD] =
                array::from_fn(|i| frames.get(i).map_or(Content::Other, content));
            if self.wants_quic {
                self.table.fetch(contents.iter().filter_map(|content| {
                    let Content::Udp(datagram) = content else {
                        return None;
                    };
                    Some((&datagram.src, &datagram.dst))
                }));
            }
            for (frame, content) in frames.iter().zip(&contents) {
                self.frame(frame, content)?;
            }
        }
        Ok(())
    }

    /// Takes a frame. `content` is that of the IP packet in it.
    fn frame(&mut self, frame: &Frame<'_>, content: &Content<'_>) -> Result<(), OutputError> {
        self.skipped.frames += 1;
        self.flows.write_expired(frame.time_ns, self.outputs)?;
        while let Some(connection) = self.table.expired(frame.time_ns) {
            self.write(&connection)?;
            self.table.give_back(connection);
        }
        if !link::is_known(frame.link) {
            self.skipped.unknown_link += 1;
        }
        match content {
            Content::Fragment => self.fragment(frame),
            content => self.content(frame, content),
        }
    }

    fn fragment(&mut self, frame: &Frame<'_>) -> Result<(), OutputError> {
        let Some(part) = link::ip_packet(frame.link, frame.data).and_then(ip::fragment) else {
            return self.content(frame, &Content::Fragment);
        };
        let Some(whole) = self.fragments.add(frame.time_ns, &part) else {
            return Ok(());
        };
        let mut content = ip::content(&whole.packet, 0);
        content.came_in(whole.ip_bytes);
        self.content(frame, &content)
    }

    fn content(&mut self, frame: &Frame<'_>, content: &Content<'_>) -> Result<(), OutputError> {
        let mut arrival = Arrival {
            ns: frame.time_ns,
            frame_number: frame.number,
            length: 0,
            ip_length: IpLength::default(),
            ttl: 0,
        };
        match content {
            Content::Udp(datagram) => {
                arrival.length = datagram.length;
                arrival.ip_length = datagram.ip_length;
                arrival.ttl = datagram.ttl;
                self.flows.udp(arrival.ns, datagram);
                if !self.wants_quic {
                    return Ok(());
                }
                self.udp(&arrival, datagram)
            }
            Content::Tcp(segment) => {
                let at = (arrival.frame_number, arrival.ns);
                self.flows.tcp(at, segment, self.outputs)
            }
            Content::Icmp(error) => self.icmp(&arrival, error),
            Content::Other => Ok(()),
            Content::Fragment => {
                self.skipped.fragments += 1;
                Ok(())
            }
            Content::Broken => {
                self.skipped.broken += 1;
                Ok(())
            }
        }
    }

    fn udp(&mut self, arrival: &Arrival, datagram: &ip::Datagram<'_>) -> Result<(), OutputError> {
        if !self.outputs.wants(Kind::QuicPacket) {
            self.table.datagram(arrival, datagram, None);
            return Ok(());
        }
        let mut log = Vec::new();
        let found = self.table.datagram(arrival, datagram, Some(&mut log));
        let Some((connection, from_client)) = found else {
            return Ok(());
        };
        if is_chosen(self.args, connection) {
            for packet in log {
                let path = Some((datagram.src, datagram.dst));
                let row =
                    quic_packet::row(self.name, connection, arrival, from_client, path, packet);
                self.outputs.write(Kind::QuicPacket, &row[..])?;
            }
        }
        Ok(())
    }

    fn icmp(&mut self, arrival: &Arrival, error: &ip::IcmpError) -> Result<(), OutputError> {
        let Some(connection) = self
            .table
            .icmp(arrival, error)
            .filter(|c| is_chosen(self.args, c))
        else {
            return Ok(());
        };
        let packet = PacketSeen {
            kind: "icmp",
            version: None,
            dcid: None,
            scid: None,
            packet_number: None,
            frames: Some(format!("type {} code {}", error.kind, error.code)),
            opened: false,
            size: 0,
            header: HeaderSeen::default(),
            frame_details: None,
        };
        let row = quic_packet::row(self.name, connection, arrival, false, None, packet);
        self.outputs.write(Kind::QuicPacket, &row[..])
    }

    fn write(&mut self, connection: &Connection) -> Result<(), OutputError> {
        if is_chosen(self.args, connection) {
            let row = ConnectionRow {
                source_file: self.name,
                connection,
            };
            self.outputs.write(Kind::QuicConnection, &row)?;
        }
        Ok(())
    }
}

/// What the IP packet in a frame holds; `Other` if there is none, or the link type is not known.
fn content<'a>(frame: &Frame<'a>) -> Content<'a> {
    match link::ip_packet(frame.link, frame.data) {
        Some(packet) if link::is_known(frame.link) => ip::content(packet, frame.cut),
        _ => Content::Other,
    }
}

fn is_chosen(args: &Args, connection: &Connection) -> bool {
    args.cid.is_empty()
        || args.cid.contains(&connection.client_scid)
        || args.cid.contains(&connection.odcid)
}
