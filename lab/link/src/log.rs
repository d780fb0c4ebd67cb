//! The lateness log: the emulator's thread formats lines, another writes them.

use crate::frame::Packet;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;

const HEADER: &str = "release_ns,src,dst,protocol,sport,dport,ip_length,late_ns,fate,arrived_ns,wait_ns,dropped_by\n";
const FLUSH_NS: u64 = 100_000_000;
const FLUSH_BYTES: usize = 1 << 16;

/// The fate of a packet.
#[derive(Debug, Clone, Copy)]
pub enum Fate {
    Sent {
        late_ns: u64,
    },
    /// By a rule of the configuration.
    Dropped,
    /// The queue before the line was full.
    QueueFull,
    Failed,
}

/// The times of a packet: it is released its path's delay and `wait_ns` (queue and transmission) after its arrival.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The kernel's receive stamp.
    pub arrived_ns: u64,
    pub release_ns: u64,
    pub wait_ns: u64,
}

/// Collects lines and passes them to the writer at least every 100 ms.
pub struct Log {
    lines: Vec<u8>,
    since_ns: u64,
    writer: Sender<Vec<u8>>,
}

impl Log {
    /// Truncates the file and writes its header.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(HEADER.as_bytes())?;
        let (writer, lines) = channel::<Vec<u8>>();
        thread::Builder::new()
            .name("lateness".into())
            .spawn(move || {
                for chunk in lines {
                    if let Err(error) = file.write_all(&chunk) {
                        eprintln!("firstflight-link: cannot write the lateness log: {error}");
                        // Results of a lab with unknown lateness are worthless: exit.
                        std::process::exit(1);
                    }
                }
            })?;
        Ok(Self {
            lines: Vec::with_capacity(2 * FLUSH_BYTES),
            since_ns: 0,
            writer,
        })
    }

    /// Adds the line of a packet with these times; a dropped one has no wait.
    pub fn add(&mut self, times: Times, packet: &Packet, fate: Fate) {
        let Times {
            arrived_ns,
            release_ns,
            wait_ns,
        } = times;
        if self.lines.is_empty() {
            self.since_ns = release_ns;
        }
        let Packet {
            src,
            dst,
            protocol,
            src_port,
            dst_port,
            ip_length,
        } = packet;
        let (late, word, wait, by) = match fate {
            Fate::Sent { late_ns } => (late_ns.to_string(), "sent", Some(wait_ns), ""),
            Fate::Dropped => (String::new(), "dropped", None, "rule"),
            Fate::QueueFull => (String::new(), "dropped", None, "queue"),
            Fate::Failed => (String::new(), "failed", Some(wait_ns), ""),
        };
        // Writing to memory cannot fail.
        let _ = write!(
            self.lines,
            "{release_ns},{src},{dst},{protocol},{src_port},{dst_port},{ip_length},{late},{word},{arrived_ns},"
        );
        if wait == Some(0) {
            // Nearly all lines of a link without rates: not worth formatting.
            self.lines.extend_from_slice(b"0,\n");
        } else if let Some(wait) = wait {
            let _ = writeln!(self.lines, "{wait},{by}");
        } else {
            let _ = writeln!(self.lines, ",{by}");
        }
    }

    /// Returns the deadline for passing lines on.
    pub fn due_ns(&self) -> Option<u64> {
        (!self.lines.is_empty()).then_some(self.since_ns + FLUSH_NS)
    }

    /// Passes the lines on if it is time, or if there are many; returns whether it did.
    pub fn flush_if_due(&mut self, now_ns: u64) -> bool {
        let due = self.lines.len() >= FLUSH_BYTES || self.due_ns().is_some_and(|due| now_ns >= due);
        if due {
            let lines = std::mem::replace(&mut self.lines, Vec::with_capacity(2 * FLUSH_BYTES));
            // The writer ends only together with the process.
            let _ = self.writer.send(lines);
        }
        due
    }
}
