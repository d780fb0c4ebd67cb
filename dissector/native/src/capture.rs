//! One capture, from its frames to its rows.

use std::array;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};

use firstflight_usage::tell;
use firstflight_wire::ConnectionId;

use crate::args::Args;
use crate::flow::expiry::Bounds;
use crate::flow_rows::FlowRows;
use crate::input::{self, CaptureError, Element, Frame, Stop};
use crate::net::fragments::Fragments;
use crate::net::ip::{self, Content, IpLength};
use crate::net::link;
use crate::net::unread::Unread;
use crate::output::rows::quic_ack::QuicAckRow;
use crate::output::rows::quic_connection::ConnectionRow;
use crate::output::rows::quic_packet::QuicPacketRow;
use crate::output::{Kind, OutputError, Outputs};
use crate::padding::Sealed;
use crate::quic::connection::{Arrival, Connection, Counters, Limits, Table};
use crate::quic::keylog::Keyring;
use crate::quic::packet_log::{Log, LoggedHeader, LoggedPacket};
use crate::quic::timeline::Windows;
use crate::trim::{Copy, Keep};

/// How long a closed connection is kept for late packets.
const CLOSING_NS: i64 = 10_000_000_000;
const NS_PER_MS: i64 = 1_000_000;
/// Number of frames that are prefetched together. With more, the first would leave the cache before they are processed.
const LOOK_AHEAD: usize = 16;
/// Maximum number of unsupported protocols in the message.
const MOST_NAMES: usize = 5;

/// Frames in a capture that are not dissected.
#[derive(Clone, Debug, Default)]
struct Skipped {
    frames: u64,
    unknown_link: u64,
    untimed: u64,
    broken: u64,
    fragments: u64,
    /// Frames of protocols that may hide UDP or TCP.
    unread: BTreeMap<Unread, u64>,
}

/// The reason why a capture was not completely read.
pub enum End {
    Broken(CaptureError),
    /// The key log next to the capture cannot be read. The error was reported.
    NoKeys,
    Interrupted,
    Output(OutputError),
}

/// A capture's trimmed copy, and the client's connection IDs of connections that stay complete in it.
pub struct Trim<'a> {
    pub copy: Copy,
    pub except: &'a HashSet<ConnectionId>,
}

/// A capture's names.
#[derive(Clone, Copy, Debug)]
pub struct CaptureName<'a> {
    /// The name in messages: its path as given.
    pub shown: &'a str,
    /// The name in records.
    pub source_file: &'a str,
}

/// Dissects the capture in `source`, up to the first fault or until `is_over`. A trimmed copy gets the final name if
/// the capture is completely read.
pub fn read_capture(
    args: &Args,
    name: CaptureName<'_>,
    keyring: Keyring,
    source: impl Read + Send,
    outputs: &mut Outputs,
    is_over: &dyn Fn() -> bool,
    trim: Option<Trim<'_>>,
) -> Result<(), Stop<End>> {
    let mut run = CaptureRun {
        args,
        source_file: name.source_file,
        table: Table::new(limits(args), keyring),
        outputs,
        flows: FlowRows::new(args, name.source_file),
        wants_quic: args
            .kind
            .iter()
            .any(|kind| [Kind::QuicConnection, Kind::QuicPacket, Kind::QuicAck].contains(kind)),
        skipped: Skipped::default(),
        fragments: Fragments::default(),
        trim,
        kept: None,
        sender: None,
        is_other: false,
        log: Log::new(args.format.style()),
    };
    if run.trim.is_some() {
        run.table.note_paddings();
    }
    let end = input::read(name.shown, source, |element| {
        if is_over() {
            return Err(End::Interrupted);
        }
        match element {
            Element::Frames(frames) => run.frames(frames).map_err(End::Output),
            Element::Untimed => {
                run.skipped.frames += 1;
                run.skipped.untimed += 1;
                run.not_copied("has frames without a time")
            }
            Element::KeyLog(text) => {
                run.table.key_log(text);
                run.not_copied("holds keys")
            }
        }
    });
    // Records before a fault are kept.
    let failed = |error| Stop::Visitor(End::Output(error));
    run.table.give_up_held();
    while let Some(connection) = run.table.drain() {
        run.write(&connection).map_err(failed)?;
    }
    run.flows.write_rest(run.outputs).map_err(failed)?;
    let evicted = run.table.evicted() + run.flows.evicted();
    run.table.counters.late += run.flows.late();
    run.skipped.fragments += run.fragments.left();
    report_skipped(name.shown, &run.skipped, &run.table.counters, evicted);
    if let (Ok(()), Some(trim)) = (&end, run.trim.take()) {
        let named = trim.copy.finish();
        named.map_err(|error| failed(not_written(name.source_file, error)))?;
    }
    end
}

fn not_written(name: &str, cause: io::Error) -> OutputError {
    OutputError {
        place: format!("the trimmed copy of {name}"),
        cause,
    }
}

fn limits(args: &Args) -> Limits {
    let windows = Windows {
        answer_ns: i64::from(args.answer_window_ms) * NS_PER_MS,
        settle_ns: i64::from(args.settle_ms) * NS_PER_MS,
    };
    Limits {
        windows,
        // A connection must stay live at least until its answer window is over.
        bounds: Bounds {
            idle_ns: (i64::from(args.idle_s) * 1000 * NS_PER_MS).max(windows.answer_ns),
            closing_ns: CLOSING_NS.max(windows.answer_ns),
            max_live: args.max_connections as usize,
        },
        max_decided: args.max_decided.unwrap_or(args.max_connections) as usize,
        ports: args.quic_port.clone(),
        acks: args.kind.contains(&Kind::QuicAck),
    }
}

/// Reports on standard error how many frames of a capture are in no record, and why.
fn report_skipped(name: &str, skipped: &Skipped, counters: &Counters, evicted: u64) {
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
        (evicted, "connections written out early (--max-connections)"),
    ];
    let mut found: Vec<String> = parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    found.extend(unread(&skipped.unread));
    if !found.is_empty() {
        tell!(
            "firstflight-dissect: {name}: of {} frames, {}",
            skipped.frames,
            found.join(", ")
        );
    }
}

/// The number of frames with unsupported protocols, and the most frequent protocols.
fn unread(counts: &BTreeMap<Unread, u64>) -> Option<String> {
    let mut counts: Vec<(&Unread, &u64)> = counts.iter().collect();
    let all: u64 = counts.iter().map(|(_, n)| *n).sum();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let mut names: Vec<String> = (counts.iter().take(MOST_NAMES))
        .map(|(protocol, n)| format!("{protocol}: {n}"))
        .collect();
    if counts.len() > MOST_NAMES {
        names.push(format!("and {} more", counts.len() - MOST_NAMES));
    }
    (all > 0).then(|| {
        format!(
            "{all} frames of protocols that are not read ({})",
            names.join(", ")
        )
    })
}

struct CaptureRun<'a> {
    args: &'a Args,
    source_file: &'a str,
    table: Table,
    outputs: &'a mut Outputs,
    flows: FlowRows<'a>,
    wants_quic: bool,
    skipped: Skipped,
    fragments: Fragments,
    trim: Option<Trim<'a>>,
    /// For the last datagram: the number of bytes in a trimmed copy (`None` = all), and whether the client sent it
    /// (`None` = keep the padding).
    kept: Option<usize>,
    sender: Option<bool>,
    /// Whether the last datagram belongs to no connection.
    is_other: bool,
    /// Packets of the current datagram. The memory is reused.
    log: Log,
}

impl CaptureRun<'_> {
    /// Processes consecutive frames.
    fn frames(&mut self, frames: &[Frame<'_>]) -> Result<(), OutputError> {
        for frames in frames.chunks(LOOK_AHEAD) {
            let contents: [Content<'_>; LOOK_AHEAD] =
                array::from_fn(|i| frames.get(i).map_or(Content::Other, content));
            if self.wants_quic {
                self.table.prefetch(contents.iter().filter_map(|content| {
                    let Content::Udp(datagram) = content else {
                        return None;
                    };
                    Some((&datagram.src, &datagram.dst))
                }));
            }
            for (frame, content) in frames.iter().zip(&contents) {
                (self.kept, self.sender, self.is_other) = (None, None, false);
                self.frame(frame, content)?;
                self.copy(frame, content)?;
            }
        }
        Ok(())
    }

    /// Adds a frame to the trimmed copy.
    fn copy(&mut self, frame: &Frame<'_>, content: &Content<'_>) -> Result<(), OutputError> {
        let Some(trim) = &mut self.trim else {
            return Ok(());
        };
        // A fragment is always kept completely.
        let mut keep = Keep::default();
        if let Content::Udp(datagram) = content {
            if self.is_other && self.args.trim_others {
                trim.copy.leave_out(frame);
                return Ok(());
            }
            let at = datagram.payload.as_ptr().addr() - frame.data.as_ptr().addr();
            keep.first = self.kept.map(|kept| at + kept);
            if let Some(from_client) = self.sender {
                let (opened, schedules) = self.table.paddings();
                keep.sealed = Some(Sealed {
                    at,
                    from_client,
                    opened,
                    schedules,
                });
            }
        }
        trim.copy
            .frame(frame, keep)
            .map_err(|error| not_written(self.source_file, error))
    }

    /// Aborts the trimmed copy, if there is one, because it would be incomplete.
    fn not_copied(&mut self, why: &str) -> Result<(), End> {
        match self.trim.take() {
            Some(_) => {
                let cause = io::Error::other(format!("the capture {why}"));
                Err(End::Output(not_written(self.source_file, cause)))
            }
            None => Ok(()),
        }
    }

    /// Processes a frame. `content` is the IP packet's content.
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
            Content::Fragment(packet) => self.fragment(frame, packet),
            content => self.content(frame, content),
        }
    }

    fn fragment(&mut self, frame: &Frame<'_>, packet: &[u8]) -> Result<(), OutputError> {
        let Some(part) = ip::fragment(packet) else {
            return self.content(frame, &Content::Fragment(packet));
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
            Content::Unread(protocol) => {
                if protocol.may_hide_rows() {
                    *self.skipped.unread.entry(*protocol).or_default() += 1;
                }
                Ok(())
            }
            Content::Fragment(_) => {
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
        self.datagram(arrival, datagram, true)?;
        while let Some(held) = self.table.held_back() {
            self.datagram(&held.arrival, &held.datagram(), false)?;
        }
        Ok(())
    }

    /// Processes a datagram. `is_copied`: the frame's trimmed copy is not yet written.
    fn datagram(
        &mut self,
        arrival: &Arrival,
        datagram: &ip::Datagram<'_>,
        is_copied: bool,
    ) -> Result<(), OutputError> {
        self.log.packets.clear();
        let log_here = self
            .outputs
            .wants(Kind::QuicPacket)
            .then_some(&mut self.log);
        let others = self.table.counters.other_udp;
        let found = self.table.datagram(arrival, datagram, log_here);
        let Some((connection, from_client)) = found else {
            // Late datagrams belong to a removed connection. Held datagrams may belong to a later one.
            if is_copied {
                self.is_other =
                    self.table.counters.other_udp > others || has_other_ports(self.args, datagram);
            }
            return Ok(());
        };
        if let Some(trim) = &self.trim
            && is_copied
            && !trim.except.contains(&connection.client_scid)
        {
            self.kept = connection.kept(from_client, datagram.payload, datagram.length);
            self.sender = Some(from_client);
        }
        if is_chosen(self.args, connection) {
            for packet in self.log.packets.drain(..) {
                let path = Some((datagram.src, datagram.dst));
                let row = QuicPacketRow::new(
                    self.source_file,
                    connection,
                    arrival,
                    from_client,
                    path,
                    packet,
                );
                self.outputs.write(Kind::QuicPacket, &row)?;
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
        let packet = LoggedPacket {
            kind: "icmp",
            version: None,
            dcid: None,
            scid: None,
            packet_number: None,
            frames: Some(format!("type {} code {}", error.kind, error.code)),
            opened: false,
            size: 0,
            header: LoggedHeader::default(),
            frame_details: None,
        };
        let row = QuicPacketRow::new(self.source_file, connection, arrival, false, None, packet);
        self.outputs.write(Kind::QuicPacket, &row)
    }

    fn write(&mut self, connection: &Connection) -> Result<(), OutputError> {
        if is_chosen(self.args, connection) {
            let row = ConnectionRow::new(self.source_file, connection);
            self.outputs.write_connection(&row)?;
            for row in QuicAckRow::of(self.source_file, connection) {
                self.outputs.write_stamped(Kind::QuicAck, &row)?;
            }
        }
        Ok(())
    }
}

/// The content of the IP packet in a frame; `Other` if there is no IP packet or the link type is unknown.
fn content<'a>(frame: &Frame<'a>) -> Content<'a> {
    match link::ip_packet(frame.link, frame.data) {
        _ if !link::is_known(frame.link) => Content::Other,
        Ok(packet) => ip::content(packet, frame.cut),
        Err(Some(protocol)) => Content::Unread(protocol),
        Err(None) => Content::Other,
    }
}

/// Whether `--quic-port` excludes both ports.
fn has_other_ports(args: &Args, datagram: &ip::Datagram<'_>) -> bool {
    let is_asked_for = |port: u16| args.quic_port.is_empty() || args.quic_port.contains(&port);
    !is_asked_for(datagram.src.port()) && !is_asked_for(datagram.dst.port())
}

fn is_chosen(args: &Args, connection: &Connection) -> bool {
    args.cid.is_empty()
        || args.cid.contains(&connection.client_scid)
        || args.cid.contains(&connection.odcid)
}
