//! Reads tables from archives: plain, bzip2 or gzip (RFC 1952). The first bytes identify the format.

use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;

/// Number of bytes to read from the stream, and to return decompressed, at a time.
const BUFFER: usize = 1 << 18;

type Source = BufReader<Chain<Cursor<Vec<u8>>, Box<dyn Read>>>;

/// Returns the bytes of `stream`, decompressed if the first bytes indicate compression.
pub fn plain(mut stream: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut magic = Vec::with_capacity(3);
    stream.by_ref().take(3).read_to_end(&mut magic)?;
    let is_bzip2 = magic == b"BZh";
    let is_gzip = magic.starts_with(&[0x1f, 0x8b]);
    let source = BufReader::with_capacity(BUFFER, Cursor::new(magic).chain(stream));
    Ok(match (is_bzip2, is_gzip) {
        (true, _) => buffered(Streams::Bzip2(BzDecoder::new(source))),
        (_, true) => buffered(Streams::Gzip(Box::new(GzDecoder::new(source)))),
        _ => Box::new(source),
    })
}

fn buffered(current: Streams) -> Box<dyn Read> {
    let members = Members {
        current,
        is_first: true,
        has_output: false,
    };
    Box::new(BufReader::with_capacity(BUFFER, members))
}

enum Streams {
    Bzip2(BzDecoder<Source>),
    Gzip(Box<GzDecoder<Source>>),
    Ended,
}

/// A sequence of compressed streams, as parallel compressors write it. Like Python's modules, treats other bytes after
/// a bzip2 stream, and zeros after a gzip member, as padding.
struct Members {
    current: Streams,
    is_first: bool,
    has_output: bool,
}

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &mut self.current {
                Streams::Bzip2(decoder) => decoder.read(buffer),
                Streams::Gzip(decoder) => decoder.read(buffer),
                Streams::Ended => return Ok(0),
            };
            match read {
                Ok(0) => self.next()?,
                Err(error) if self.is_padding(&error) => self.current = Streams::Ended,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(bytes) => {
                    self.has_output = true;
                    return Ok(bytes);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Members {
    fn next(&mut self) -> io::Result<()> {
        self.is_first = false;
        self.has_output = false;
        self.current = match std::mem::replace(&mut self.current, Streams::Ended) {
            Streams::Bzip2(decoder) => {
                let mut source = decoder.into_inner();
                match source.fill_buf()?.is_empty() {
                    true => Streams::Ended,
                    false => Streams::Bzip2(BzDecoder::new(source)),
                }
            }
            Streams::Gzip(decoder) => {
                let mut source = decoder.into_inner();
                match skip_zeros(&mut source)? {
                    true => Streams::Ended,
                    false => Streams::Gzip(Box::new(GzDecoder::new(source))),
                }
            }
            Streams::Ended => Streams::Ended,
        };
        Ok(())
    }

    fn is_padding(&self, error: &io::Error) -> bool {
        let inner = error.get_ref().and_then(|e| e.downcast_ref());
        !self.is_first && !self.has_output && matches!(inner, Some(bzip2::Error::DataMagic))
    }
}

/// Skips zeros. Returns whether the stream then has no more bytes.
fn skip_zeros(source: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let held = source.fill_buf()?;
        let zeros = held.iter().take_while(|byte| **byte == 0).count();
        if held.is_empty() || zeros < held.len() {
            let is_end = held.is_empty();
            source.consume(zeros);
            return Ok(is_end);
        }
        source.consume(zeros);
    }
}
