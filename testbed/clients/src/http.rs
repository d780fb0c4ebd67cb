//! The bytes of one HTTP/3 exchange (RFC 9114): SETTINGS, a GET request, and the response stream.

use firstflight_contract::Request;
use firstflight_wire::Writer;
use firstflight_wire::http3::{ResponseStream, write_control_stream, write_request};

/// The ALPN identifier of HTTP/3.
pub const ALPN: &[u8] = b"h3";
/// The code to close a connection with after a complete exchange (H3_NO_ERROR).
pub const NO_ERROR: u32 = 0x100;
const HEADER_SECTION: u64 = 64 << 10;
const ROOM: usize = 4096;

/// The bytes that the client sends: the start of its control stream, and the whole request stream.
pub struct Sent {
    pub control: Vec<u8>,
    pub request: Vec<u8>,
}

/// Encodes a request; errors are one sentence.
pub fn sent(request: &Request) -> Result<Sent, String> {
    let authority = request.authority();
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", authority.as_str()),
        (":path", request.path.as_str()),
        ("user-agent", request.user_agent.as_str()),
    ];
    let encoded = |write: &dyn Fn(&mut Writer<'_>) -> Result<(), firstflight_wire::Error>| {
        let mut room = vec![0; ROOM];
        let mut writer = Writer::new(&mut room);
        write(&mut writer).map_err(|error| format!("the request cannot be sent: {error}"))?;
        Ok::<_, String>(writer.written().to_vec())
    };
    Ok(Sent {
        control: encoded(&|writer| write_control_stream(writer, HEADER_SECTION))?,
        request: encoded(&|writer| write_request(writer, &fields))?,
    })
}

/// Returns a reader for the response stream.
pub fn response() -> ResponseStream {
    ResponseStream::new(HEADER_SECTION as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str) -> Request {
        serde_json::from_value(serde_json::json!({
            "host": "a.test", "ip": "::1", "port": 4433, "path": path, "user_agent": "x", "timeout_s": 1,
            "max_bytes": 1, "roots": "r.pem", "verify": true
        }))
        .expect("a request")
    }

    #[test]
    fn a_request_is_one_headers_frame_behind_settings() {
        let sent = sent(&request("/a")).expect("a request");
        assert_eq!(sent.control[..2], [0x00, 0x04]);
        assert_eq!(sent.request[0], 0x01);
        let text = String::from_utf8_lossy(&sent.request).into_owned();
        assert!(
            text.contains("a.test:4433") && text.contains("/a"),
            "{text}"
        );
    }

    #[test]
    fn what_no_field_can_have_is_one_sentence() {
        let Err(error) = sent(&request("/\n")) else {
            panic!("a line feed is sent");
        };
        assert!(error.starts_with("the request cannot be sent: "), "{error}");
    }
}
