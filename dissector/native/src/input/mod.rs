//! Frames of captures: pcap (both byte orders, µs and ns) and pcapng, plain or compressed, from a file or
//! standard input.

mod compressed;
mod empty;
mod pcap;
mod pcapng;
mod unpadded;

use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use pcap_parser::{PcapBlockOwned, PcapError, create_reader};

use crate::net::link;

pub use compressed::plain;

use compressed::UntilError;
use empty::EmptyRun;
use pcap::Pcap;
use pcapng::Interfaces;
use unpadded::Unpadded;

/// A captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Nanoseconds since 1970, UTC.
    pub time_ns: i64,
    /// Place in the capture, from 1, as other tools count.
    pub number: u64,
    /// Link type.
    pub link: i32,
    pub data: &'a [u8],
    /// Bytes of it that were on the wire and not captured.
    pub cut: usize,
}

/// What a capture holds, in order.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    /// A frame, or some that follow each other.
    Frames(&'a [Frame<'a>]),
    /// A frame without a time, so without a place in a timeline (pcapng's Simple Packet Block). It has a
    /// number all the same.
    Untimed,
    /// A TLS key log inside the capture.
    KeyLog(&'a [u8]),
}

/// A frame without its place.
struct Captured<'a> {
    time_ns: i64,
    link: i32,
    data: &'a [u8],
    /// Its length on the wire.
    length: u32,
}

/// A block that matters.
enum Found<'a> {
    Frame(Captured<'a>),
    Untimed,
    KeyLog(&'a [u8]),
}

/// A capture that cannot be read on.
#[derive(Debug)]
pub struct CaptureError {
    pub name: String,
    /// Offset of the element that is broken, in bytes.
    pub offset: u64,
    pub what: String,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: at byte {}: {}", self.name, self.offset, self.what)
    }
}

/// Why reading stopped before the end: the capture, or the visitor of its frames.
#[derive(Debug)]
pub enum Stop<E> {
    Capture(CaptureError),
    Visitor(E),
}

/// Bytes read at a time; a larger frame makes the buffer grow up to `MAX_BUFFER`.
const BUFFER: usize = 1 << 18;
/// No frame is larger than this: a length above it is a broken one.
const MAX_BUFFER: usize = 1 << 22;
/// A block of pcapng may be as large: one has the key log of a whole capture.
const MAX_BLOCK: usize = 1 << 26;

/// A capture's name for people and records: the path as given; `-` for standard input.
pub fn name(path: &Path) -> String {
    path.display().to_string()
}

/// Opens a capture; `-` is standard input. What is compressed by gzip or Zstandard is decompressed; offsets
/// count its bytes then.
pub fn open(path: &Path) -> Result<Box<dyn Read + Send>, CaptureError> {
    let failed = |what| CaptureError {
        name: name(path),
        offset: 0,
        what,
    };
    let source: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(|e| failed(format!("cannot be opened: {e}")))?)
    };
    plain(source).map_err(|e| failed(format!("cannot be read: {e}")))
}

/// Passes every element of `source` to `visit`, in order, those before a broken place as well. Frames of an
/// unknown link type are passed on as well, and as far as they are there those whose padding was left out and
/// cannot be put back; if nothing else is wrong, they are the error at the end.
pub fn read<E>(
    name: &str,
    source: impl Read + Send,
    mut visit: impl FnMut(Element<'_>) -> Result<(), E>,
) -> Result<(), Stop<E>> {
    let mut consumed = 0;
    let stop = |offset, what: String| {
        Stop::Capture(CaptureError {
            name: name.to_owned(),
            offset,
            what,
        })
    };

    let (mut source, reason) = UntilError::new(source);
    // The first read determines the format, so it must not be a short one (pipes).
    let mut head = Vec::with_capacity(BUFFER);
    source
        .by_ref()
        .take(BUFFER as u64 / 2)
        .read_to_end(&mut head)
        .map_err(|error| stop(0, format!("cannot be read: {error}")))?;
    if let Some(error) = reason.get().filter(|_| head.is_empty()) {
        return Err(stop(0, format!("cannot be read: {error}")));
    }
    if head.is_empty() {
        return Err(stop(
            0,
            "is empty: expected a capture in pcap or pcapng format".into(),
        ));
    }
    let begin: Vec<u8> = head.iter().take(16).copied().collect();
    let mut reader = create_reader(BUFFER, Cursor::new(head).chain(source)).map_err(|_| {
        let found = begin.escape_ascii();
        stop(
            0,
            format!("is not a capture: expected the header of pcap or pcapng, found \"{found}\""),
        )
    })?;

    let mut capacity = BUFFER;
    // Offset and link type of the first frame that cannot be read, in a capture of several interfaces.
    let mut unknown = None;
    let mut clock = Clock::default();
    let mut empty = EmptyRun::default();
    let mut unpadded = Unpadded::default();
    let mut number = 0;
    loop {
        // What is in memory already needs no look at each frame's way there.
        if let Some(pcap) = &clock.pcap {
            let (frames, size) = pcap.frames(reader.data(), number);
            if !frames.is_empty() {
                let visited = if pcap.is_unpadded {
                    visit(Element::Frames(&unpadded.restored(&frames, consumed)))
                } else {
                    visit(Element::Frames(&frames))
                };
                visited.map_err(Stop::Visitor)?;
                empty
                    .add(&frames, consumed, size)
                    .map_err(|(at, what)| stop(at, what))?;
                number += frames.len() as u64;
                drop(frames);
                reader.consume_noshift(size);
                consumed += size as u64;
                continue;
            }
        }
        match reader.next() {
            Ok((size, block)) => {
                let frame;
                let element = match clock.block(block).map_err(|what| stop(consumed, what))? {
                    Some(Found::Frame(found)) => {
                        number += 1;
                        if !link::is_known(found.link) {
                            unknown.get_or_insert((consumed, found.link));
                        }
                        frame = Frame {
                            time_ns: found.time_ns,
                            number,
                            link: found.link,
                            data: found.data,
                            cut: (found.length as usize).saturating_sub(found.data.len()),
                        };
                        Some(Element::Frames(std::slice::from_ref(&frame)))
                    }
                    Some(Found::Untimed) => {
                        number += 1;
                        Some(Element::Untimed)
                    }
                    Some(Found::KeyLog(text)) => Some(Element::KeyLog(text)),
                    None => None,
                };
                if let Some(element) = element {
                    let is_unpadded = clock.pcap.as_ref().is_some_and(|pcap| pcap.is_unpadded);
                    let visited = match element {
                        Element::Frames(frames) if is_unpadded => {
                            visit(Element::Frames(&unpadded.restored(frames, consumed)))
                        }
                        element => visit(element),
                    };
                    visited.map_err(Stop::Visitor)?;
                    if let Element::Frames(frames) = element {
                        empty
                            .add(frames, consumed, size)
                            .map_err(|(at, what)| stop(at, what))?;
                    }
                }
                // Bytes are moved to the front of the buffer when it is filled, not before.
                reader.consume_noshift(size);
                consumed += size as u64;
            }
            Err(PcapError::Eof | PcapError::UnexpectedEof) if reason.get().is_some() => {
                let error = reason.get().unwrap_or_default();
                return Err(stop(consumed, format!("cannot be read on: {error}")));
            }
            Err(PcapError::Eof) => {
                return match (unknown, unpadded.damaged()) {
                    (Some((offset, link)), _) => Err(stop(offset, link::expected(link))),
                    (None, Some((offset, what))) => Err(stop(offset, what)),
                    (None, None) => Ok(()),
                };
            }
            Err(PcapError::Incomplete(_)) => {
                reader
                    .refill()
                    .map_err(|_| stop(consumed, "cannot be read on".into()))?;
            }
            Err(PcapError::BufferTooSmall) if capacity < clock.longest() => {
                capacity *= 2;
                reader.grow(capacity);
                reader
                    .refill()
                    .map_err(|_| stop(consumed, "cannot be read on".into()))?;
            }
            Err(PcapError::BufferTooSmall) => {
                return Err(stop(
                    consumed,
                    format!(
                        "expected a frame of less than {} bytes, found a longer one",
                        clock.longest()
                    ),
                ));
            }
            Err(PcapError::UnexpectedEof) => {
                return Err(stop(
                    consumed,
                    "expected a whole frame, but the capture ends inside it".into(),
                ));
            }
            Err(_) => {
                return Err(stop(
                    consumed,
                    "expected the header of a frame or block, found other bytes".into(),
                ));
            }
        }
    }
}

/// Turns the blocks of either format into times and data.
#[derive(Default)]
struct Clock {
    pcap: Option<Pcap>,
    pcapng: Interfaces,
}

impl Clock {
    /// No block is longer.
    fn longest(&self) -> usize {
        if self.pcap.is_some() {
            MAX_BUFFER
        } else {
            MAX_BLOCK
        }
    }

    /// What matters in a block.
    fn block<'a>(&mut self, block: PcapBlockOwned<'a>) -> Result<Option<Found<'a>>, String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let pcap = Pcap::new(&header);
                if !link::is_known(pcap.link) {
                    return Err(link::expected(pcap.link));
                }
                self.pcap = Some(pcap);
                Ok(None)
            }
            PcapBlockOwned::Legacy(frame) => {
                let pcap = self
                    .pcap
                    .as_ref()
                    .ok_or("expected a file header before the first frame")?;
                Ok(Some(Found::Frame(Captured {
                    time_ns: pcap.time_ns(&frame),
                    link: pcap.link,
                    data: frame.data,
                    length: frame.origlen,
                })))
            }
            PcapBlockOwned::NG(block) => self.pcapng.block(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type FrameList = Vec<(i64, i32, Vec<u8>)>;

    fn frames(bytes: &[u8]) -> (FrameList, Option<CaptureError>) {
        let mut seen = Vec::new();
        let end = read("x", bytes, |element| {
            if let Element::Frames(frames) = element {
                seen.extend(frames.iter().map(|f| (f.time_ns, f.link, f.data.to_vec())));
            }
            Ok::<(), ()>(())
        });
        let error = match end {
            Err(Stop::Capture(error)) => Some(error),
            _ => None,
        };
        (seen, error)
    }

    fn pcap(magic: u32, big: bool, fraction: u32, data: &[u8]) -> Vec<u8> {
        let n = |v: u32| {
            if big {
                v.to_be_bytes()
            } else {
                v.to_le_bytes()
            }
        };
        let h = |v: u16| {
            if big {
                v.to_be_bytes()
            } else {
                v.to_le_bytes()
            }
        };
        let mut out = [
            &n(magic)[..],
            &h(2),
            &h(4),
            &n(0),
            &n(0),
            &n(65535),
            &n(101),
        ]
        .concat();
        let len = data.len() as u32;
        out.extend([&n(1_700_000_000)[..], &n(fraction), &n(len), &n(len), data].concat());
        out
    }

    #[test]
    fn pcap_in_both_byte_orders_and_resolutions() {
        for big in [false, true] {
            for (magic, fraction, nanos) in [(0xa1b2_c3d4, 7, 7000), (0xa1b2_3c4d, 7, 7)] {
                let (seen, error) = frames(&pcap(magic, big, fraction, b"abcd"));
                assert_eq!(
                    seen,
                    [(1_700_000_000_000_000_000 + nanos, 101, b"abcd".to_vec())]
                );
                assert!(error.is_none());
            }
        }
    }

    #[test]
    fn frames_are_numbered_in_order_however_many_are_handed_over() {
        let mut bytes = pcap(0xa1b2_c3d4, true, 0, b"0");
        let header = bytes.len() - 17;
        let frame = bytes.split_off(header);
        for _ in 0..1000 {
            bytes.extend(&frame);
        }
        let mut numbers = Vec::new();
        let end = read("x", &bytes[..], |element| {
            if let Element::Frames(frames) = element {
                numbers.extend(frames.iter().map(|f| f.number));
            }
            Ok::<(), ()>(())
        });
        assert!(end.is_ok());
        assert!(numbers.into_iter().eq(1..=1000));
    }

    #[test]
    fn what_is_no_capture_is_refused_by_name() {
        for (bytes, expected) in [
            (&b""[..], "empty"),
            (b"ip,domain,port\n", "not a capture"),
            (&[0xd4, 0xc3], "not a"),
        ] {
            let (seen, error) = frames(bytes);
            assert!(seen.is_empty());
            assert!(error.is_some_and(|e| e.what.contains(expected) && e.name == "x"));
        }
    }

    #[test]
    fn a_broken_capture_keeps_the_frames_before() {
        let mut bytes = pcap(0xa1b2_c3d4, false, 0, b"abcd");
        let whole = bytes.len();
        bytes.extend([0; 10]);
        let (seen, error) = frames(&bytes);
        assert_eq!(seen.len(), 1);
        assert_eq!(error.map(|e| e.offset), Some(whole as u64));
        // A frame that claims 4 GB: refused, and nothing of that size allocated.
        bytes.truncate(whole);
        bytes.extend([[0; 8].as_slice(), &[0xff; 8]].concat());
        bytes.extend(vec![0; MAX_BUFFER + 10]);
        let (seen, error) = frames(&bytes);
        assert_eq!(seen.len(), 1);
        assert!(error.is_some_and(|e| e.what.contains("longer")));
    }

    #[test]
    fn a_block_of_pcapng_may_hold_a_long_key_log() {
        let section = [
            &0x0a0d_0d0a_u32.to_le_bytes()[..],
            &28_u32.to_le_bytes(),
            &0x1a2b_3c4d_u32.to_le_bytes(),
            &[1, 0, 0, 0],
            &[0xff; 8],
            &28_u32.to_le_bytes(),
        ];
        let log = vec![b'\n'; 2 * MAX_BUFFER];
        let length = (20 + log.len()) as u32;
        let secrets = [
            &10_u32.to_le_bytes()[..],
            &length.to_le_bytes(),
            &0x544c_534b_u32.to_le_bytes(),
            &(log.len() as u32).to_le_bytes(),
            &log,
            &length.to_le_bytes(),
        ];
        let bytes = [section.concat(), secrets.concat()].concat();
        let mut found = Vec::new();
        let read: Result<(), Stop<()>> = read("x", Cursor::new(bytes), |element| {
            if let Element::KeyLog(text) = element {
                found.push(text.len());
            }
            Ok(())
        });
        assert!(read.is_ok());
        assert_eq!(found, [log.len()]);
    }

    #[test]
    fn large_frames_fit() {
        let data = vec![7; 1_000_000];
        let (seen, error) = frames(&pcap(0xa1b2_c3d4, false, 0, &data));
        assert!(error.is_none());
        assert_eq!(seen[0].2.len(), data.len());
    }
}
