//! Reads the server's side of the request stream (RFC 9114 4.1): informational responses, the final response,
//! content.

use super::field_lines::read_section;
use super::fields::{is_name, is_value};
use super::frames::{FrameReader, Step};
use super::{FieldSection, Http3Error, code, frame_type};

/// A final response, available after the header section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// 200 to 999.
    pub status: u16,
    /// The header section without `:status`. The size includes `:status`.
    ///
    /// Connection-specific fields of HTTP/1.1 are kept, because servers send them. The caller decides what they mean.
    pub fields: FieldSection,
}

/// The state of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    BeforeResponse,
    Content,
    AfterTrailers,
}

/// Reads the server's side of a request stream. Stores at most one header section of `limit` bytes, encoded and
/// decoded. It does not store content or unknown frames.
#[derive(Clone, Debug)]
pub struct ResponseStream {
    limit: usize,
    frames: FrameReader,
    phase: Phase,
    /// Partial payload of the current HEADERS frame.
    section: Option<Vec<u8>>,
    response: Option<Response>,
    informational: u32,
    is_data: bool,
    content_bytes: u64,
    failed: Option<Http3Error>,
}

impl ResponseStream {
    /// Returns an empty stream. `limit` is the largest header section in bytes; it applies to the frame's payload
    /// and to the size defined in RFC 9114 4.2.2.
    pub fn new(limit: usize) -> Self {
        ResponseStream {
            limit,
            frames: FrameReader::new(),
            phase: Phase::BeforeResponse,
            section: None,
            response: None,
            informational: 0,
            is_data: false,
            content_bytes: 0,
            failed: None,
        }
    }

    /// Returns the final response after the whole header section has arrived.
    pub fn response(&self) -> Option<&Response> {
        self.response.as_ref()
    }

    /// Returns the number of received informational responses (status 1xx).
    pub fn informational(&self) -> u32 {
        self.informational
    }

    /// Returns the number of received content bytes.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Processes the next bytes of the stream. After an error, all further calls return the same error. A response
    /// that was complete before the error stays available.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Http3Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let done = self.read(bytes);
        self.note(done)
    }

    /// Checks at the end of the stream (FIN) whether the message is complete: a final response, and no truncated
    /// frame.
    pub fn finish(&mut self) -> Result<(), Http3Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let done = if !self.frames.is_between_frames() {
            Err(Http3Error::new(
                code::FRAME_ERROR,
                "stream ends inside a frame",
            ))
        } else if self.response.is_none() {
            Err(Http3Error::new(
                code::REQUEST_INCOMPLETE,
                "stream ends without a response",
            ))
        } else {
            Ok(())
        };
        self.note(done)
    }

    fn note(&mut self, done: Result<(), Http3Error>) -> Result<(), Http3Error> {
        if done.is_err() {
            self.failed = done.err();
            self.section = None;
        }
        done
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Http3Error> {
        while let Some(step) = self.frames.step(&mut bytes) {
            match step {
                Step::Start { kind, length } => self.start(kind, length)?,
                Step::Part(part) => {
                    if let Some(section) = &mut self.section {
                        section.extend_from_slice(part);
                    } else if self.is_data {
                        self.content_bytes = self.content_bytes.saturating_add(part.len() as u64);
                    }
                }
                Step::End => {
                    self.is_data = false;
                    if let Some(section) = self.section.take() {
                        self.header_section(&section)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks whether a frame is allowed here, and prepares for the payload (RFC 9114 4.1, 7.2).
    fn start(&mut self, kind: u64, length: u64) -> Result<(), Http3Error> {
        match kind {
            frame_type::HEADERS => {
                if self.phase == Phase::AfterTrailers {
                    return Err(Http3Error::unexpected("HEADERS after trailers"));
                }
                if length > self.limit as u64 {
                    return Err(Http3Error::excessive("HEADERS frame above the limit"));
                }
                self.section = Some(Vec::new());
            }
            frame_type::DATA => match self.phase {
                Phase::BeforeResponse => {
                    return Err(Http3Error::unexpected("DATA before a response"));
                }
                Phase::Content => self.is_data = true,
                Phase::AfterTrailers => return Err(Http3Error::unexpected("DATA after trailers")),
            },
            // A client that does not allow push has no valid push ID.
            frame_type::PUSH_PROMISE => {
                return Err(Http3Error::new(
                    code::ID_ERROR,
                    "push promised that was not allowed",
                ));
            }
            frame_type::SETTINGS
            | frame_type::CANCEL_PUSH
            | frame_type::GOAWAY
            | frame_type::MAX_PUSH_ID => {
                return Err(Http3Error::unexpected(
                    "frame of the control stream on a request stream",
                ));
            }
            kind if frame_type::OF_HTTP2.contains(&kind) => {
                return Err(Http3Error::unexpected("frame of HTTP/2"));
            }
            _ => {}
        }
        Ok(())
    }

    fn header_section(&mut self, section: &[u8]) -> Result<(), Http3Error> {
        if self.phase == Phase::Content {
            read_fields(section, self.limit, true)?;
            self.phase = Phase::AfterTrailers;
            return Ok(());
        }
        let (status, fields) = read_fields(section, self.limit, false)?;
        let status = status.ok_or(Http3Error::message("response without :status"))?;
        if status < 200 {
            self.informational = self.informational.saturating_add(1);
            return Ok(());
        }
        self.response = Some(Response { status, fields });
        self.phase = Phase::Content;
        Ok(())
    }
}

/// Reads the status and other fields in a header section or in trailers (RFC 9114 4.2, 4.3).
fn read_fields(
    section: &[u8],
    limit: usize,
    is_trailer: bool,
) -> Result<(Option<u16>, FieldSection), Http3Error> {
    let mut fields = FieldSection::default();
    let mut status = None;
    read_section(section, |name, value| {
        fields.count(name, value, limit)?;
        if name.first() == Some(&b':') {
            if is_trailer {
                return Err(Http3Error::message("pseudo-header field in trailers"));
            }
            if name != b":status" {
                return Err(Http3Error::message("pseudo-header field of no response"));
            }
            if !fields.is_empty() {
                return Err(Http3Error::message(":status after other fields"));
            }
            if status.replace(read_status(value)?).is_some() {
                return Err(Http3Error::message(":status twice"));
            }
            return Ok(());
        }
        if !is_name(name) {
            return Err(Http3Error::message("name of a field"));
        }
        if !is_value(value) {
            return Err(Http3Error::message("value of a field"));
        }
        fields.keep(name, value);
        Ok(())
    })?;
    Ok((status, fields))
}

/// Parses three digits; the first must not be zero (RFC 9110 15).
fn read_status(value: &[u8]) -> Result<u16, Http3Error> {
    match value {
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
            let number = |sum, digit: &u8| sum * 10 + u16::from(digit - b'0');
            Ok(value.iter().fold(0, number))
        }
        _ => Err(Http3Error::message("value of :status")),
    }
}

#[cfg(test)]
mod tests;
