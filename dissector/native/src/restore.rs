//! Restores a standard capture from a capture without padding (`--restore`).

use std::io::{self, BufWriter, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::input::{self, CaptureError, Element, Stop};
use crate::writer::{Writer, refused};

const BUFFER: usize = 1 << 18;

/// The reason why a capture was not completely restored.
#[derive(Debug)]
pub enum End {
    Broken(CaptureError),
    Interrupted,
    Output(io::Error),
}

/// Writes the capture at `path` to `out`, as pcap with nanoseconds, with the padding of every record restored. Also
/// writes the records before a fault, and the remaining bytes of records that cannot be restored.
pub fn restore(path: &Path, out: impl io::Write, interrupted: &AtomicBool) -> Result<(), End> {
    let source = input::open(path).map_err(End::Broken)?;
    let mut writer = Writer::new(BufWriter::with_capacity(BUFFER, out), 0);
    let end = input::read(&input::name(path), source, |element| {
        if interrupted.load(Ordering::Relaxed) {
            return Err(End::Interrupted);
        }
        let written = match element {
            Element::Frames(frames) => {
                (frames.iter()).try_for_each(|frame| writer.record(frame, frame.data))
            }
            Element::Untimed => Err(refused("has frames without a time")),
            Element::KeyLog(_) => Err(refused("holds keys, which pcap cannot")),
        };
        written.map_err(|error| match error.kind() {
            ErrorKind::Unsupported => End::Output(io::Error::other(format!(
                "{} {error}: it is no trimmed capture",
                input::name(path)
            ))),
            _ => End::Output(error),
        })
    });
    writer.flush().map_err(End::Output)?;
    end.map_err(|stop| match stop {
        Stop::Capture(error) => End::Broken(error),
        Stop::Visitor(end) => end,
    })
}
