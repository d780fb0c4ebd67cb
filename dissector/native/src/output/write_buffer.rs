//! Buffers bytes until a larger block can be written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::temporary::nameless;

/// Size and alignment of writes to a file. Without the alignment, half the cost of writing is spent on partially
/// written pages.
const BLOCK: usize = 1 << 18;
/// Size of writes to a shared destination.
const SHARED_BLOCK: usize = 1 << 16;
/// Length of a long row.
const ROW: usize = 1 << 13;
/// Maximum number of bytes kept in memory for a later writer.
const ASIDE: usize = 1 << 20;

/// The destination of the bytes.
pub(super) enum Place {
    /// A destination with other writers. The bytes appended between two calls of [`WriteBuffer::settle`] are written
    /// together.
    Shared(Box<dyn Write + Send>),
    /// A file with a single writer.
    Own(File),
    /// Stored for a later writer: in memory, and beyond a limit in an unnamed file.
    Aside(Option<File>),
}

/// Bytes to be written to a destination.
pub(super) struct WriteBuffer {
    /// Append bytes here, then call [`WriteBuffer::settle`].
    pub(super) bytes: Vec<u8>,
    place: Place,
    /// Number of bytes written.
    written: usize,
}

impl WriteBuffer {
    pub(super) fn new(place: Place) -> WriteBuffer {
        let usual = match place {
            Place::Own(_) => BLOCK + ROW,
            Place::Shared(_) => SHARED_BLOCK + ROW,
            Place::Aside(_) => 0,
        };
        WriteBuffer {
            bytes: Vec::with_capacity(usual),
            place,
            written: 0,
        }
    }

    /// Writes full blocks.
    #[inline]
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let length = self.bytes.len();
        match self.place {
            Place::Shared(_) if length >= SHARED_BLOCK => self.write_out(length),
            Place::Aside(_) if length >= ASIDE => self.write_out(length),
            Place::Own(_) if self.written % BLOCK + length >= BLOCK => {
                self.write_out(length - (self.written + length) % BLOCK)
            }
            _ => Ok(()),
        }
    }

    /// Writes all bytes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write_out(self.bytes.len())?;
        match &mut self.place {
            Place::Shared(out) => out.flush(),
            Place::Own(_) | Place::Aside(_) => Ok(()),
        }
    }

    /// Appends the content of `other`.
    pub(super) fn append(&mut self, other: WriteBuffer) -> io::Result<()> {
        let mut aside = other.into_reader()?;
        while aside
            .by_ref()
            .take(BLOCK as u64)
            .read_to_end(&mut self.bytes)?
            > 0
        {
            match self.place {
                Place::Own(_) => self.settle()?,
                // The pieces must stay adjacent.
                Place::Shared(_) | Place::Aside(_) => self.write_out(self.bytes.len())?,
            }
        }
        Ok(())
    }

    /// The whole content, from the start.
    pub(super) fn into_reader(self) -> io::Result<impl Read> {
        let written: Box<dyn Read> = match self.place {
            Place::Aside(Some(mut file)) => {
                file.seek(SeekFrom::Start(0))?;
                Box::new(file)
            }
            _ => Box::new(io::empty()),
        };
        Ok(written.chain(io::Cursor::new(self.bytes)))
    }

    fn write_out(&mut self, length: usize) -> io::Result<()> {
        let out: &mut dyn Write = match &mut self.place {
            Place::Shared(out) => out,
            Place::Own(file) => file,
            Place::Aside(Some(file)) => file,
            Place::Aside(none) => none.insert(nameless()?),
        };
        for block in self.bytes[..length].chunks(BLOCK) {
            out.write_all(block)?;
        }
        self.bytes.drain(..length);
        self.written += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
