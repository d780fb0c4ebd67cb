//! The HTTP/3 bytes from a server (RFC 9114): SETTINGS after the handshake, and the response.

use bytes::Bytes;
use firstflight_listener::AnswerConfig;
use firstflight_wire::Writer;
use firstflight_wire::http3::{write_control_stream, write_request};
use std::time::Duration;

/// SETTINGS_MAX_FIELD_SECTION_SIZE.
const MOST_FIELDS: u64 = 16_384;
const ROOM: usize = 16 << 10;

const CHUNK: usize = 64 << 10;
/// Type of a DATA frame (RFC 9114, section 7.2.1).
const DATA: u64 = 0;

/// The response to a request, as stream bytes, and the delay after the request.
#[derive(Debug, Clone)]
pub struct Response {
    pub bytes: Pieces,
    pub delay: Duration,
}

/// A stream's bytes: a start, followed by zeros.
#[derive(Debug, Clone)]
pub struct Pieces {
    begin: Bytes,
    zeros: u64,
    chunk: Bytes,
}

impl Pieces {
    pub fn new(begin: Vec<u8>, zeros: u64) -> Self {
        let chunk = zeros.min(CHUNK as u64) as usize;
        Self {
            begin: begin.into(),
            zeros,
            chunk: vec![0; chunk].into(),
        }
    }

    /// The next bytes; empty at the end.
    pub fn front(&self) -> Bytes {
        if !self.begin.is_empty() {
            return self.begin.clone();
        }
        let size = self.zeros.min(self.chunk.len() as u64) as usize;
        self.chunk.slice(..size)
    }

    /// Removes `count` sent bytes from `front`.
    pub fn advance(&mut self, count: usize) {
        if self.begin.is_empty() {
            self.zeros -= count as u64;
        } else {
            let _ = self.begin.split_to(count);
        }
    }
}

/// Returns the start of the server's control stream; errors are one sentence.
pub fn control() -> Result<Vec<u8>, String> {
    written(|writer| write_control_stream(writer, MOST_FIELDS))
}

/// Returns the declared response; errors are one sentence.
pub fn response(answer: &AnswerConfig) -> Result<Response, String> {
    let status = answer.status.to_string();
    let declared = answer.headers.iter();
    let fields: Vec<(&str, &str)> = std::iter::once((":status", status.as_str()))
        .chain(declared.map(|(name, value)| (name.as_str(), value.as_str())))
        .collect();
    let begin = written(|writer| {
        // A response's HEADERS frame has the same encoding as a request's.
        write_request(writer, &fields)?;
        if answer.body_bytes > 0 {
            writer.varint(DATA)?;
            writer.varint(answer.body_bytes)?;
        }
        Ok(())
    })?;
    Ok(Response {
        bytes: Pieces::new(begin, answer.body_bytes),
        delay: Duration::from_micros(answer.delay_us.unwrap_or(0)),
    })
}

fn written(
    write: impl Fn(&mut Writer<'_>) -> Result<(), firstflight_wire::Error>,
) -> Result<Vec<u8>, String> {
    let mut room = vec![0; ROOM];
    let mut writer = Writer::new(&mut room);
    write(&mut writer).map_err(|error| format!("the answer cannot be sent: {error}"))?;
    Ok(writer.written().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_wire::http3::ResponseStream;

    fn answer(name: &str) -> AnswerConfig {
        AnswerConfig {
            status: 204,
            headers: vec![(name.to_owned(), "b".to_owned())],
            delay_us: Some(7),
            body_bytes: 0,
        }
    }

    fn all(mut pieces: Pieces, most: usize) -> Vec<u8> {
        let mut found = Vec::new();
        loop {
            let next = pieces.front();
            if next.is_empty() {
                return found;
            }
            let taken = next.len().min(most);
            found.extend_from_slice(&next[..taken]);
            pieces.advance(taken);
        }
    }

    #[test]
    fn a_client_reads_what_was_declared() {
        let response = response(&answer("a")).expect("an answer");
        assert_eq!(response.delay, Duration::from_micros(7));
        let mut client = ResponseStream::new(1 << 16);
        client
            .push(&all(response.bytes, usize::MAX))
            .expect("HTTP/3");
        client.finish().expect("a whole answer");
        assert_eq!(client.response().map(|found| found.status), Some(204));
        assert_eq!(control().expect("a control stream")[..2], [0x00, 0x04]);
    }

    #[test]
    fn a_body_is_as_long_as_declared() {
        for (length, most) in [(1, 1), (70_000, 999), (200_000, usize::MAX)] {
            let mut declared = answer("a");
            declared.body_bytes = length;
            let response = response(&declared).expect("an answer");
            let mut client = ResponseStream::new(1 << 16);
            client.push(&all(response.bytes, most)).expect("HTTP/3");
            client.finish().expect("a whole answer");
            assert_eq!(client.content_bytes(), length);
        }
    }

    #[test]
    fn what_no_field_can_have_is_one_sentence() {
        let Err(error) = response(&answer("a b")) else {
            panic!("a space is sent");
        };
        assert!(error.starts_with("the answer cannot be sent: "), "{error}");
    }
}
