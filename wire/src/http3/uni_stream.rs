//! Reads a unidirectional stream of the server (RFC 9114 6.2, RFC 9204 4.2).

use super::frames::{FrameReader, Step};
use super::settings::read_settings;
use super::{Http3Error, code, frame_type};
use crate::Reader;

/// Types of streams.
pub const CONTROL: u64 = 0x00;
const PUSH: u64 = 0x01;
const QPACK_ENCODER: u64 = 0x02;
const QPACK_DECODER: u64 = 0x03;

/// The only encoder instruction for a table without capacity: set the capacity to 0 (RFC 9204 4.3.1).
const CAPACITY: u8 = 0x20;

/// A stream's type. A server opens one stream of each of the first three types (RFC 9114 6.2.1, RFC 9204 4.2).
/// The owner of the streams must detect a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniKind {
    Control,
    QpackEncoder,
    QpackDecoder,
    /// An extension's type, or a reserved type to ignore.
    Other(u64),
}

/// Reads one stream. Stores the type, and at most `limit` bytes of each control frame.
#[derive(Clone, Debug)]
pub struct UniStream {
    limit: usize,
    /// The first bytes of the type until it is complete.
    head: [u8; 8],
    filled: usize,
    kind: Option<UniKind>,
    frames: FrameReader,
    /// Type and partial payload of the current control frame, if it is needed.
    frame: Option<(u64, Vec<u8>)>,
    settings: Option<Vec<(u64, u64)>>,
    goaway: Option<u64>,
    failed: Option<Http3Error>,
}

impl UniStream {
    /// Returns an empty stream. `limit` is the largest SETTINGS frame in bytes. Its parsed settings take up to
    /// eight times as much memory.
    pub fn new(limit: usize) -> Self {
        UniStream {
            limit,
            head: [0; 8],
            filled: 0,
            kind: None,
            frames: FrameReader::new(),
            frame: None,
            settings: None,
            goaway: None,
            failed: None,
        }
    }

    /// Returns the type of the stream after it has arrived.
    pub fn kind(&self) -> Option<UniKind> {
        self.kind
    }

    /// Returns `(id, value)` of each setting in wire order, after the SETTINGS frame in a control stream has
    /// arrived.
    pub fn settings(&self) -> Option<&[(u64, u64)]> {
        self.settings.as_deref()
    }

    /// Returns the stream ID in the last GOAWAY frame.
    pub fn goaway(&self) -> Option<u64> {
        self.goaway
    }

    /// Processes the next bytes of the stream. After an error, all further calls return the same error.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Http3Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let done = self.read(bytes);
        self.note(done)
    }

    /// Checks whether the stream may be closed by FIN or by a reset (RFC 9114 6.2.1, RFC 9204 4.2).
    pub fn finish(&mut self) -> Result<(), Http3Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let done = match self.kind {
            None | Some(UniKind::Other(_)) => Ok(()),
            Some(_) => Err(Http3Error::new(
                code::CLOSED_CRITICAL_STREAM,
                "critical stream closed",
            )),
        };
        self.note(done)
    }

    fn note(&mut self, done: Result<(), Http3Error>) -> Result<(), Http3Error> {
        if done.is_err() {
            self.failed = done.err();
            self.frame = None;
        }
        done
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Http3Error> {
        while self.kind.is_none() {
            let Some((&byte, rest)) = bytes.split_first() else {
                return Ok(());
            };
            bytes = rest;
            // An integer is complete when the array is full.
            self.head[self.filled] = byte;
            self.filled += 1;
            self.kind = match Reader::new(&self.head[..self.filled]).varint() {
                Err(_) => None,
                Ok(CONTROL) => Some(UniKind::Control),
                // A client that does not allow push has no valid push ID.
                Ok(PUSH) => {
                    return Err(Http3Error::new(
                        code::ID_ERROR,
                        "push stream that was not allowed",
                    ));
                }
                Ok(QPACK_ENCODER) => Some(UniKind::QpackEncoder),
                Ok(QPACK_DECODER) => Some(UniKind::QpackDecoder),
                Ok(other) => Some(UniKind::Other(other)),
            };
        }
        match self.kind {
            Some(UniKind::Control) => self.control(bytes),
            Some(UniKind::QpackEncoder) => encoder(bytes),
            _ => Ok(()),
        }
    }

    fn control(&mut self, mut bytes: &[u8]) -> Result<(), Http3Error> {
        while let Some(step) = self.frames.step(&mut bytes) {
            match step {
                Step::Start { kind, length } => self.start(kind, length)?,
                Step::Part(part) => {
                    if let Some((_, payload)) = &mut self.frame {
                        payload.extend_from_slice(part);
                    }
                }
                Step::End => match self.frame.take() {
                    Some((frame_type::SETTINGS, payload)) => {
                        self.settings = Some(read_settings(&payload)?);
                    }
                    Some((_, payload)) => self.read_goaway(&payload)?,
                    None => {}
                },
            }
        }
        Ok(())
    }

    /// Checks whether a frame is allowed here, and whether to read it (RFC 9114 6.2.1, 7.2).
    fn start(&mut self, kind: u64, length: u64) -> Result<(), Http3Error> {
        if self.settings.is_none() && kind != frame_type::SETTINGS {
            return Err(Http3Error::new(
                code::MISSING_SETTINGS,
                "control stream without SETTINGS first",
            ));
        }
        match kind {
            frame_type::SETTINGS if self.settings.is_some() => {
                Err(Http3Error::unexpected("SETTINGS twice"))
            }
            frame_type::SETTINGS if length > self.limit as u64 => {
                Err(Http3Error::excessive("SETTINGS frame above the limit"))
            }
            // The payload is one integer.
            frame_type::GOAWAY if length > 8 => Err(GOAWAY_LENGTH),
            frame_type::SETTINGS | frame_type::GOAWAY => {
                self.frame = Some((kind, Vec::new()));
                Ok(())
            }
            frame_type::DATA | frame_type::HEADERS | frame_type::PUSH_PROMISE => Err(
                Http3Error::unexpected("frame of a request stream on the control stream"),
            ),
            frame_type::MAX_PUSH_ID => Err(Http3Error::unexpected("MAX_PUSH_ID from a server")),
            frame_type::CANCEL_PUSH => Err(Http3Error::new(
                code::ID_ERROR,
                "push cancelled that was not allowed",
            )),
            kind if frame_type::OF_HTTP2.contains(&kind) => {
                Err(Http3Error::unexpected("frame of HTTP/2"))
            }
            _ => Ok(()),
        }
    }

    /// Reads a GOAWAY. The value must be the ID of a request stream, and not greater than in an earlier GOAWAY (RFC
    /// 9114 5.2, 7.2.6).
    fn read_goaway(&mut self, payload: &[u8]) -> Result<(), Http3Error> {
        let mut r = Reader::new(payload);
        let id = r.varint().map_err(|_| GOAWAY_LENGTH)?;
        if !r.is_empty() {
            return Err(GOAWAY_LENGTH);
        }
        if id % 4 != 0 {
            return Err(Http3Error::new(code::ID_ERROR, "stream ID of a GOAWAY"));
        }
        if self.goaway.is_some_and(|before| id > before) {
            return Err(Http3Error::new(
                code::ID_ERROR,
                "stream ID of a GOAWAY grows",
            ));
        }
        self.goaway = Some(id);
        Ok(())
    }
}

const GOAWAY_LENGTH: Http3Error = Http3Error::new(code::FRAME_ERROR, "length of a GOAWAY");

/// Checks the instructions for a dynamic table without capacity (RFC 9204 3.2.2, 4.3).
fn encoder(bytes: &[u8]) -> Result<(), Http3Error> {
    match bytes.iter().find(|byte| **byte != CAPACITY) {
        None => Ok(()),
        Some(byte) => Err(Http3Error::new(
            code::QPACK_ENCODER_STREAM_ERROR,
            if byte & 0xe0 == CAPACITY {
                "dynamic table above the capacity allowed"
            } else {
                "insertion into a dynamic table without capacity"
            },
        )),
    }
}

#[cfg(test)]
mod tests;
