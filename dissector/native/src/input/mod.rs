//! Frames of captures: pcap (both byte orders, µs and ns) and pcapng, plain or compressed, from a file or
//! standard input.

mod compressed;
mod empty;
mod pcap;
mod pcapng;
mod reading;
mod unpadded;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use pcap_parser::PcapError;

pub use compressed::plain;

use compressed::UntilError;
use reading::Reading;

/// A captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Nanoseconds since 1970, UTC.
    pub time_ns: i64,
    /// Number of the frame in the capture, from 1, as other tools count.
    pub number: u64,
    /// Link type.
    pub link: i32,
    pub data: &'a [u8],
    /// Bytes of the frame that were on the wire but not captured.
    pub cut: usize,
}

/// An element in a capture.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    /// A frame, or several consecutive ones.
    Frames(&'a [Frame<'a>]),
    /// A frame without a time, which has no place in a timeline (pcapng's Simple Packet Block). It still has a number.
    Untimed,
    /// A TLS key log inside the capture.
    KeyLog(&'a [u8]),
}

/// A frame without a number.
struct Captured<'a> {
    time_ns: i64,
    link: i32,
    data: &'a [u8],
    /// Length on the wire.
    length: u32,
}

/// A relevant block.
enum Found<'a> {
    Frame(Captured<'a>),
    Untimed,
    KeyLog(&'a [u8]),
}

/// A fault that prevents further reading of a capture.
#[derive(Debug)]
pub struct CaptureError {
    pub name: String,
    /// Offset of the broken element, in bytes.
    pub offset: u64,
    pub what: String,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: at byte {}: {}", self.name, self.offset, self.what)
    }
}

/// The reason why reading stopped early: a fault of the capture, or an error of the visitor.
#[derive(Debug)]
pub enum Stop<E> {
    Capture(CaptureError),
    Visitor(E),
}

/// Bytes read at a time; a larger frame makes the buffer grow up to `MAX_BUFFER`.
const BUFFER: usize = 1 << 18;
/// Largest valid frame: a larger length is a fault.
const MAX_BUFFER: usize = 1 << 22;
/// Largest pcapng block: a block may hold the key log for a whole capture.
const MAX_BLOCK: usize = 1 << 26;

/// A capture's name in messages and records: the path as given; `-` for standard input.
pub fn name(path: &Path) -> String {
    path.display().to_string()
}

/// Opens a capture; `-` is standard input. Decompresses gzip and Zstandard. Offsets then count decompressed bytes.
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

/// Passes every element of `source` to `visit`, in order, up to the first fault. Also passes on frames of an unknown
/// link type, and the remaining bytes of frames with omitted padding that cannot be restored. Without another fault,
/// these frames are the error at the end.
pub fn read<E>(
    name: &str,
    source: impl Read + Send,
    mut visit: impl FnMut(Element<'_>) -> Result<(), E>,
) -> Result<(), Stop<E>> {
    let (source, reason) = UntilError::new(source);
    let mut reading = Reading::new(name);
    let mut reader = reading.begin(source, &reason)?;
    let mut capacity = BUFFER;
    loop {
        // Frames that are completely in memory are processed together.
        if let Some(size) = reading.whole_frames(reader.data(), &mut visit)? {
            reader.consume_noshift(size);
            continue;
        }
        match reader.next() {
            Ok((size, block)) => {
                reading.block(size, block, &mut visit)?;
                // Consumed bytes are removed only when the buffer is refilled.
                reader.consume_noshift(size);
            }
            Err(PcapError::Eof | PcapError::UnexpectedEof) if reason.get().is_some() => {
                return Err(reading.unreadable(&reason));
            }
            Err(PcapError::Eof) => return reading.end(),
            Err(error) => {
                if matches!(error, PcapError::BufferTooSmall) && capacity < reading.longest() {
                    capacity *= 2;
                    reader.grow(capacity);
                } else if let Some(what) = reading.fault(&error) {
                    return Err(reading.stop(what));
                }
                let filled = reader.refill();
                filled.map_err(|_| reading.stop("cannot be read further".into()))?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

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
        // A frame with a length of 4 GB is refused without allocating that much.
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
