//! HTTP/3 on a connection: SETTINGS after the handshake, and the declared answer to each request.
//!
//! It sends no data earlier, so the first flight is the same with and without HTTP/3.

use firstflight_listener::Config;
use quiche::h3::{self, Event, Header};
use std::time::{Duration, Instant};

/// SETTINGS_MAX_FIELD_SECTION_SIZE.
const MOST_FIELDS: u64 = 16_384;
/// Content of answers.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The answers of all endpoints, in the order of the configuration; `None`: requests get no answer.
pub struct Answers {
    config: h3::Config,
    list: Vec<Option<HttpAnswer>>,
}

struct HttpAnswer {
    /// The status as a pseudo-header field, and the declared fields.
    fields: Vec<Header>,
    delay: Duration,
    body_bytes: u64,
}

impl Answers {
    /// Reads the answers from a configuration. Errors are sentences for display.
    pub fn new(config: &Config) -> Result<Self, String> {
        let mut settings =
            h3::Config::new().map_err(|error| format!("HTTP/3 cannot be set up: {error}"))?;
        settings.set_max_field_section_size(MOST_FIELDS);
        settings.set_qpack_max_table_capacity(0);
        settings.set_qpack_blocked_streams(0);
        let list = config.endpoints.iter().map(|endpoint| {
            let declared = endpoint.http.as_ref()?;
            let status = Header::new(b":status", declared.status.to_string().as_bytes());
            let rest = declared.headers.iter();
            let rest = rest.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()));
            Some(HttpAnswer {
                fields: std::iter::once(status).chain(rest).collect(),
                delay: Duration::from_micros(declared.delay_us.unwrap_or(0)),
                body_bytes: declared.body_bytes,
            })
        });
        Ok(Self {
            config: settings,
            list: list.collect(),
        })
    }
}

/// A connection's HTTP/3 side.
#[derive(Default)]
pub struct Http {
    connection: Option<h3::Connection>,
    /// Streams of requests, and the times of their answers.
    pending: Vec<(Instant, u64)>,
    /// Streams of answers, and the remaining length of their content.
    bodies: Vec<(u64, u64)>,
}

impl Http {
    /// Reads requests and sends due answers, if the handshake permits it.
    pub fn advance(
        &mut self,
        quic: &mut quiche::Connection,
        answers: &Answers,
        endpoint: usize,
        now: Instant,
    ) {
        if !quic.is_established() || quic.is_closed() || quic.is_draining() {
            return;
        }
        if self.connection.is_none() {
            self.connection = h3::Connection::with_transport(quic, &answers.config).ok();
        }
        let Some(connection) = &mut self.connection else {
            return;
        };
        let answer = answers.list.get(endpoint).and_then(Option::as_ref);
        // An error is `Done`, or quiche has closed the connection because of it.
        while let Ok((stream, event)) = connection.poll(quic) {
            match (event, answer) {
                (Event::Headers { .. }, Some(answer)) => {
                    self.pending.push((now + answer.delay, stream));
                }
                (Event::Data, _) => {
                    let mut ignored = [0; 1024];
                    while connection.recv_body(quic, stream, &mut ignored).is_ok() {}
                }
                _ => {}
            }
        }
        if let Some(answer) = answer {
            self.pending.retain(|&(at, stream)| {
                if at <= now {
                    // Fails if the client is gone or has given no credit. There is no answer then.
                    let is_all = answer.body_bytes == 0;
                    let sent = connection.send_response(quic, stream, &answer.fields, is_all);
                    if sent.is_ok() && !is_all {
                        self.bodies.push((stream, answer.body_bytes));
                    }
                }
                at > now
            });
        }
        self.bodies.retain_mut(|(stream, left)| {
            while *left > 0 {
                let size = (*left).min(ZEROS.len() as u64) as usize;
                let is_last = size as u64 == *left;
                match connection.send_body(quic, *stream, &ZEROS[..size], is_last) {
                    Ok(sent) => *left -= sent as u64,
                    // Continue later, when there is credit.
                    Err(h3::Error::Done) => break,
                    Err(_) => return false,
                }
            }
            *left > 0
        });
    }

    /// Returns when the next answer is due.
    pub fn next_at(&self) -> Option<Instant> {
        self.pending.iter().map(|&(at, _)| at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::h3::NameValue;

    #[test]
    fn the_status_is_before_the_fields() {
        let config = Config::parse(
            r#"{"port": 1, "listen": ["::1"], "certificates": {"small": {"chain": "c", "key": "k"}},
                "endpoints": [
                  {"domain": "a.test", "ip": "::1", "mode": "wait", "delay_us": null, "certificate": "small"},
                  {"domain": "b.test", "ip": "::1", "mode": "wait", "delay_us": null, "certificate": "small",
                   "http": {"status": 301, "headers": [["server", "x"], ["location", "/"]], "delay_us": 9}}]}"#,
        )
        .unwrap();
        let answers = Answers::new(&config).unwrap();
        assert!(answers.list[0].is_none());
        let answer = answers.list[1].as_ref().unwrap();
        let names: Vec<&[u8]> = answer.fields.iter().map(NameValue::name).collect();
        assert_eq!(names, [&b":status"[..], b"server", b"location"]);
        assert_eq!(answer.fields[0].value(), b"301");
        assert_eq!(answer.delay, Duration::from_micros(9));
    }

    #[test]
    fn the_earliest_answer_is_next() {
        let now = Instant::now();
        let http = Http {
            connection: None,
            bodies: Vec::new(),
            pending: vec![(now + Duration::from_secs(2), 4), (now, 0)],
        };
        assert_eq!(http.next_at(), Some(now));
        assert_eq!(Http::default().next_at(), None);
    }
}
