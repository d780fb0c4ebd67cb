//! The lateness log. The emulator's thread formats lines; another thread writes them.

use crate::frame::Packet;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;

const HEADER: &str = "release_ns,src,dst,protocol,sport,dport,ip_length,late_ns,fate,arrived_ns,wait_ns,dropped_by\n";
const FLUSH_NS: u64 = 100_000_000;
const FLUSH_BYTES: usize = 1 << 16;

/// A packet's fate.
#[derive(Debug, Clone, Copy)]
pub enum Fate {
    Sent {
        late_ns: u64,
    },
    /// Dropped by a rule of the configuration.
    Dropped,
    /// Dropped because the queue of the bottleneck was full.
    QueueFull,
    Failed,
}

/// A packet's times. The release is the arrival plus `wait_ns` (queue and transmission) and the path's delay.
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
    /// Truncates the file and writes the header.
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
                        // Results from a lab with unknown lateness are worthless: exit.
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

    /// Adds the line for a packet with these times. A dropped packet has no wait.
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
            // Without rates, nearly all lines take this branch, which avoids the formatting.
            self.lines.extend_from_slice(b"0,\n");
        } else if let Some(wait) = wait {
            let _ = writeln!(self.lines, "{wait},{by}");
        } else {
            let _ = writeln!(self.lines, ",{by}");
        }
    }

    /// Returns the deadline for passing lines to the writer.
    pub fn due_ns(&self) -> Option<u64> {
        (!self.lines.is_empty()).then_some(self.since_ns + FLUSH_NS)
    }

    /// Passes the lines to the writer if the deadline has passed or there are many; returns whether it did.
    pub fn flush_if_due(&mut self, now_ns: u64) -> bool {
        let due = self.lines.len() >= FLUSH_BYTES || self.due_ns().is_some_and(|due| now_ns >= due);
        if due {
            let lines = std::mem::replace(&mut self.lines, Vec::with_capacity(2 * FLUSH_BYTES));
            // The writer runs until the process exits.
            let _ = self.writer.send(lines);
        }
        due
    }
}
