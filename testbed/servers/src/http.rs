//! The bytes that a server sends in HTTP/3 (RFC 9114): SETTINGS when the handshake is complete, and a header section as the answer.

use firstflight_listener::Answer;
use firstflight_wire::Writer;
use firstflight_wire::http3::{write_control_stream, write_request};
use std::time::Duration;

/// SETTINGS_MAX_FIELD_SECTION_SIZE.
const MOST_FIELDS: u64 = 16_384;
const ROOM: usize = 16 << 10;

/// The answer to a request, as bytes of its stream, and how long after the request it is sent.
#[derive(Debug, Clone)]
pub struct Response {
    pub bytes: Vec<u8>,
    pub delay: Duration,
}

/// Returns the beginning of the server's control stream; an error is a sentence.
pub fn control() -> Result<Vec<u8>, String> {
    written(|writer| write_control_stream(writer, MOST_FIELDS))
}

/// Returns the declared answer; an error is a sentence.
pub fn response(answer: &Answer) -> Result<Response, String> {
    let status = answer.status.to_string();
    let declared = answer.headers.iter();
    let fields: Vec<(&str, &str)> = std::iter::once((":status", status.as_str()))
        .chain(declared.map(|(name, value)| (name.as_str(), value.as_str())))
        .collect();
    Ok(Response {
        // A response's HEADERS frame is written as a request's.
        bytes: written(|writer| write_request(writer, &fields))?,
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

    fn answer(name: &str) -> Answer {
        Answer {
            status: 204,
            headers: vec![(name.to_owned(), "b".to_owned())],
            delay_us: Some(7),
        }
    }

    #[test]
    fn a_client_reads_what_was_declared() {
        let response = response(&answer("a")).expect("an answer");
        assert_eq!(response.delay, Duration::from_micros(7));
        let mut client = ResponseStream::new(1 << 16);
        client.push(&response.bytes).expect("HTTP/3");
        client.finish().expect("a whole answer");
        assert_eq!(client.response().map(|found| found.status), Some(204));
        assert_eq!(control().expect("a control stream")[..2], [0x00, 0x04]);
    }

    #[test]
    fn what_no_field_can_have_is_one_sentence() {
        let Err(error) = response(&answer("a b")) else {
            panic!("a space is sent");
        };
        assert!(error.starts_with("the answer cannot be sent: "), "{error}");
    }
}
