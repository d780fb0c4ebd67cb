//! Frames in a stream (RFC 9114 7.1) that arrives in pieces.

use crate::Reader;

/// The next event on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A frame's type and length.
    Start { kind: u64, length: u64 },
    /// The next bytes of the frame's payload, at least one.
    Part(&'a [u8]),
    /// The frame is complete.
    End,
}

/// The position of the reader in the stream.
#[derive(Clone, Debug)]
enum Place {
    /// The first bytes of a frame's type and length.
    Head { bytes: [u8; 16], filled: usize },
    /// Number of bytes until the end of the frame.
    Body { left: u64 },
}

const BETWEEN: Place = Place::Head {
    bytes: [0; 16],
    filled: 0,
};

/// Finds the frames. Stores no payload.
#[derive(Clone, Debug)]
pub struct FrameReader {
    place: Place,
}

impl FrameReader {
    /// Returns a reader at the start of a frame.
    pub fn new() -> Self {
        FrameReader { place: BETWEEN }
    }

    /// Returns whether the reader is between two frames.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.place, Place::Head { filled: 0, .. })
    }

    /// Returns the next event from the front of `bytes`, or `None` if it needs more bytes.
    pub fn step<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Step<'a>> {
        match &mut self.place {
            Place::Body { left: 0 } => {
                self.place = BETWEEN;
                Some(Step::End)
            }
            Place::Body { left } => {
                let there =
                    usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                let (part, rest) = bytes.split_at(there);
                *left -= there as u64;
                *bytes = rest;
                (!part.is_empty()).then_some(Step::Part(part))
            }
            Place::Head {
                bytes: head,
                filled,
            } => loop {
                let (&byte, rest) = bytes.split_first()?;
                *bytes = rest;
                // Two integers of eight bytes are complete when the array is full.
                head[*filled] = byte;
                *filled += 1;
                let mut r = Reader::new(&head[..*filled]);
                if let (Ok(kind), Ok(length)) = (r.varint(), r.varint()) {
                    self.place = Place::Body { left: length };
                    return Some(Step::Start { kind, length });
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads frames as `(type, length, payload)` from pieces of `size` bytes.
    fn read(stream: &[u8], size: usize) -> (Vec<(u64, u64, Vec<u8>)>, bool) {
        let (mut frames, mut reader, mut ended) = (Vec::new(), FrameReader::new(), 0);
        for mut piece in stream.chunks(size) {
            while let Some(step) = reader.step(&mut piece) {
                match step {
                    Step::Start { kind, length } => frames.push((kind, length, Vec::new())),
                    Step::Part(part) => frames.last_mut().unwrap().2.extend_from_slice(part),
                    Step::End => ended += 1,
                }
            }
            assert!(piece.is_empty());
        }
        let is_between = reader.is_between_frames();
        assert_eq!(ended, frames.len() - usize::from(frames.len() > ended));
        (frames, is_between)
    }

    #[test]
    fn frames_in_pieces_of_any_size() {
        // DATA of 2 bytes, an empty frame with a long type and a long length, a truncated frame.
        let stream = [
            0, 2, 7, 8, 0xc0, 0, 0, 0, 0, 0, 0, 0x21, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0xbf,
            0xff, 0xff, 0xff, 9,
        ];
        let expected = [
            (0, 2, vec![7, 8]),
            (0x21, 0, vec![]),
            (1, 0x3fff_ffff, vec![9]),
        ];
        for size in 1..=stream.len() {
            assert_eq!(read(&stream, size), (expected.to_vec(), false), "{size}");
            assert_eq!(read(&stream[..20], size), (expected[..2].to_vec(), true));
            assert_eq!(read(&stream[..21], size), (expected[..2].to_vec(), false));
        }
    }

    #[test]
    fn the_longest_frame_is_no_overflow() {
        let stream = [0xff; 40];
        let (frames, is_between) = read(&stream, 7);
        assert_eq!(
            frames,
            [(crate::VARINT_MAX, crate::VARINT_MAX, vec![0xff; 24])]
        );
        assert!(!is_between);
    }
}
