//! HTTP/0.9 over QUIC, which only the testbed uses: the request is a line, and the answer is only a body.

use crate::response::{self, Failed};
use firstflight_contract::{ClientAnswer, End, Request};

/// The client's first bidirectional stream (RFC 9000 2.1).
const STREAM: u64 = 0;

/// Sends the request.
pub fn ask(quic: &mut quiche::Connection, path: &str) -> Result<(), Failed> {
    let line = format!("GET {path}\r\n");
    quic.stream_send(STREAM, line.as_bytes(), true)
        .map(|_| ())
        .map_err(|error| (End::Failed, format!("HTTP/0.9: {error}")))
}

/// Processes the received part of the answer; returns `Some` when the answer is complete. `elapsed_us`: the time since
/// the download started.
pub fn take(
    quic: &mut quiche::Connection,
    body: &mut [u8],
    request: &Request,
    answer: &mut ClientAnswer,
    elapsed_us: u64,
) -> Result<Option<End>, Failed> {
    loop {
        match quic.stream_recv(STREAM, body) {
            Ok((read, is_last)) => {
                answer.first_byte_us.get_or_insert(elapsed_us);
                answer.http_version = Some(request.http.version());
                let limit = response::take_body(answer, read, request);
                if limit.is_some() {
                    return Ok(limit);
                }
                if is_last {
                    return response::end(answer, request.method).map(Some);
                }
            }
            Err(quiche::Error::Done) => return Ok(None),
            Err(quiche::Error::StreamReset(code)) => {
                let detail = format!("the server reset the stream: {code:#x}");
                return Err((End::Reset, detail));
            }
            Err(error) => return Err((End::Reset, format!("HTTP/0.9: {error}"))),
        }
    }
}
