//! Reads the records in a table dump (RFC 6396 2), one after the other, from a stream.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use firstflight_usage::reason;

use crate::decompress;
use crate::failure::Failure;

pub const TABLE_DUMP: u16 = 12;
pub const TABLE_DUMP_V2: u16 = 13;
/// BGP traffic (RFC 6396 4.4), easily mistaken for a table.
const BGP4MP: [u16; 2] = [16, 17];
const HEADER_BYTES: usize = 12;
/// Far larger than any record in a real table. A larger length means that the file is damaged or not MRT.
const MAX_RECORD_BYTES: u32 = 1 << 26;

/// One record: its header's offset in the (decompressed) file, the header's fields, and the body.
pub struct Record<'a> {
    pub offset: u64,
    pub timestamp: u32,
    pub kind: u16,
    pub subtype: u16,
    pub body: &'a [u8],
}

pub struct Records<'p> {
    stream: Box<dyn Read>,
    path: &'p Path,
    offset: u64,
    body: Vec<u8>,
}

impl<'p> Records<'p> {
    pub fn open(path: &'p Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| Failure::unopened(path, &error))?;
        Self::over(Box::new(file), path)
    }

    /// A stream's records. Failures refer to it as `path`.
    pub fn over(stream: Box<dyn Read>, path: &'p Path) -> Result<Self, Failure> {
        let stream = decompress::plain(stream).map_err(|error| Failure::unopened(path, &error))?;
        Ok(Self {
            stream,
            path,
            offset: 0,
            body: Vec::new(),
        })
    }

    /// Returns the next record, with a type that occurs in table dumps; `None` at the end of the file.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Failure> {
        let offset = self.offset;
        let read = self.fill(HEADER_BYTES, offset)?;
        if read == 0 {
            return Ok(None);
        }
        let Some(header) = self.body.first_chunk::<HEADER_BYTES>() else {
            return Err(self.cut(offset, offset + read as u64));
        };
        let [t0, t1, t2, t3, k0, k1, s0, s1, l0, l1, l2, l3] = *header;
        let timestamp = u32::from_be_bytes([t0, t1, t2, t3]);
        let kind = u16::from_be_bytes([k0, k1]);
        let subtype = u16::from_be_bytes([s0, s1]);
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        if length > MAX_RECORD_BYTES || !matches!(kind, TABLE_DUMP | TABLE_DUMP_V2) {
            let what = if BGP4MP.contains(&kind) {
                "this is BGP traffic, not a table"
            } else {
                "is it a RIB?"
            };
            return Err(Failure::Input(format!(
                "{} is not an MRT table dump: at byte {offset} is a record of type {kind}.{subtype} and {length} \
                 bytes; {what}",
                self.path.display()
            )));
        }
        let begin = offset + HEADER_BYTES as u64;
        let read = self.fill(length as usize, begin)?;
        if read < length as usize {
            return Err(self.cut(offset, begin + read as u64));
        }
        self.offset = begin + u64::from(length);
        Ok(Some(Record {
            offset,
            timestamp,
            kind,
            subtype,
            body: &self.body,
        }))
    }

    /// Reads the next `wanted` bytes into `body`, fewer at the end of the file. The size of `body` grows only with the
    /// bytes read.
    fn fill(&mut self, wanted: usize, at: u64) -> Result<usize, Failure> {
        self.body.clear();
        let mut limited = self.stream.by_ref().take(wanted as u64);
        match limited.read_to_end(&mut self.body) {
            Ok(read) => Ok(read),
            // The compressed stream is truncated. The caller detects missing bytes, except at the end of a record.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => match self.body.len() {
                0 => Err(self.cut(self.offset, at)),
                read => Ok(read),
            },
            Err(error) if error.raw_os_error().is_some() => {
                Err(Failure::unopened(self.path, &error))
            }
            Err(error) => Err(Failure::Input(format!(
                "the routing table {} is damaged after byte {}: {}; fetch it again",
                self.path.display(),
                at + self.body.len() as u64,
                reason(&error)
            ))),
        }
    }

    fn cut(&self, record_at: u64, at: u64) -> Failure {
        let path = self.path.display();
        Failure::Input(if at < HEADER_BYTES as u64 {
            format!("{path} is not an MRT table dump: it ends after {at} bytes; is it a RIB?")
        } else {
            format!(
                "the routing table {path} is cut short: it ends after byte {at} (decompressed), within the record \
                 that starts at byte {record_at}; an incomplete table gives wrong origins, so it is not used: \
                 fetch it again"
            )
        })
    }
}
