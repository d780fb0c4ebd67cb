//! HTTP/3 of one connection: SETTINGS when the handshake is complete, and the declared answer to each request.
//!
//! Nothing of it is sent earlier, so the first flight is the same with and without it.

use firstflight_listener::Config;
use quiche::h3::{self, Event, Header};
use std::time::{Duration, Instant};

/// SETTINGS_MAX_FIELD_SECTION_SIZE.
const MOST_FIELDS: u64 = 16_384;

/// The answers of all endpoints, in the order of the configuration; `None`: requests stay without one.
pub struct Answers {
    config: h3::Config,
    list: Vec<Option<Answer>>,
}

struct Answer {
    /// The status as a pseudo-header field, and the fields declared.
    fields: Vec<Header>,
    delay: Duration,
}

impl Answers {
    /// Takes the answers from a configuration. Errors are sentences for display.
    pub fn new(config: &Config) -> Result<Self, String> {
        let has_body = |endpoint: &firstflight_listener::Endpoint| {
            endpoint
                .http
                .as_ref()
                .is_some_and(|http| http.body_bytes > 0)
        };
        if let Some(endpoint) = config.endpoints.iter().find(|one| has_body(one)) {
            let label = endpoint.label();
            return Err(format!("{label}: this server answers without `body_bytes`"));
        }
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
            Some(Answer {
                fields: std::iter::once(status).chain(rest).collect(),
                delay: Duration::from_micros(declared.delay_us.unwrap_or(0)),
            })
        });
        Ok(Self {
            config: settings,
            list: list.collect(),
        })
    }
}

/// The HTTP/3 side of a connection.
#[derive(Default)]
pub struct Http {
    connection: Option<h3::Connection>,
    /// Streams of requests, and when they are answered.
    pending: Vec<(Instant, u64)>,
}

impl Http {
    /// Reads requests and sends the answers that are due, as far as the handshake permits.
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
        // An error is `Done`, or quiche has closed the connection for it.
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
                    // The client may have gone, or have left no credit: then it has no answer.
                    let _ = connection.send_response(quic, stream, &answer.fields, true);
                }
                at > now
            });
        }
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
            pending: vec![(now + Duration::from_secs(2), 4), (now, 0)],
        };
        assert_eq!(http.next_at(), Some(now));
        assert_eq!(Http::default().next_at(), None);
    }
}
