//! Writes captures: pcap with nanoseconds, in the byte order of this machine.

use std::io::{self, Write};

use crate::input::Frame;

/// Magic number of pcap files with nanoseconds, in the byte order of the writer.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// No frame is larger (tcpdump's MAXIMUM_SNAPLEN).
const SNAPLEN: u32 = 262_144;
const NS_PER_S: i64 = 1_000_000_000;

/// A capture as it is written.
pub struct Writer<W> {
    out: W,
    /// What stands in the place of the times' precision: zero in standard captures.
    mark: u32,
    /// Link type of its frames; `None` before the first.
    link: Option<i32>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture; nothing is written before its first frame.
    pub fn new(out: W, mark: u32) -> Writer<W> {
        Writer {
            out,
            mark,
            link: None,
        }
    }

    /// Adds a record that holds `data` for `frame`: its time and length on the wire.
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

    /// Whether there was a frame.
    pub fn has_begun(&self) -> bool {
        self.link.is_some()
    }

    /// Hands over what was written to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Where it is written to.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Writes the header of a capture with frames of this link type.
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

/// The error of a capture that cannot be written as pcap, or not as it is.
pub fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what.to_owned())
}
