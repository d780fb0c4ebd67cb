//! Writes captures: pcap with nanoseconds, in the byte order of this machine.

use std::io::{self, Write};

use crate::input::Frame;

/// Magic number of pcap files with nanoseconds, in the writer's byte order.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Largest frame (tcpdump's MAXIMUM_SNAPLEN).
const SNAPLEN: u32 = 262_144;
const NS_PER_S: i64 = 1_000_000_000;

/// Writes a capture.
pub struct Writer<W> {
    out: W,
    /// The header's `sigfigs` field: zero in standard captures.
    mark: u32,
    /// Link type of the frames; `None` before the first frame.
    link: Option<i32>,
}

impl<W: Write> Writer<W> {
    /// Starts a capture. Writes nothing before the first frame.
    pub fn new(out: W, mark: u32) -> Writer<W> {
        Writer {
            out,
            mark,
            link: None,
        }
    }

    /// Adds a record with the bytes `data`, and with the time and original length from `frame`.
    pub fn record(&mut self, frame: &Frame<'_>, data: &[u8]) -> io::Result<()> {
        if self.link.is_none() {
            self.begin(frame.link)?;
        }
        if self.link != Some(frame.link) {
            return Err(refused("has frames of several link types"));
        }
        let length = frame.data.len() + frame.cut;
        let fields = [
            u32::try_from(frame.time_ns.div_euclid(NS_PER_S)),
            u32::try_from(frame.time_ns.rem_euclid(NS_PER_S)),
            u32::try_from(data.len()),
            u32::try_from(length),
        ];
        for field in fields {
            let field = field.map_err(|_| refused("has a time or length that pcap cannot hold"))?;
            self.out.write_all(&field.to_ne_bytes())?;
        }
        self.out.write_all(data)
    }

    /// Whether a frame was written.
    pub fn has_begun(&self) -> bool {
        self.link.is_some()
    }

    /// Flushes the buffers.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The underlying writer.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Writes a capture's header with frames of this link type.
    pub fn begin(&mut self, link: i32) -> io::Result<()> {
        let [major, minor] = [2_u16, 4];
        let head = [
            &NANOSECONDS.to_ne_bytes()[..],
            &major.to_ne_bytes(),
            &minor.to_ne_bytes(),
            &[0; 4],
            &self.mark.to_ne_bytes(),
            &SNAPLEN.to_ne_bytes(),
            &link.to_ne_bytes(),
        ];
        self.link = Some(link);
        self.out.write_all(&head.concat())
    }
}

/// The error for a capture that cannot be represented as pcap.
pub fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what.to_owned())
}
