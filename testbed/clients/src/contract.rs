//! One JSON object a line: what the testbed's clients use of a request, and what they say of its end.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A request; further fields are ignored.
#[derive(Debug, Deserialize)]
pub struct Request {
    pub host: String,
    pub ip: IpAddr,
    pub port: u16,
    pub path: String,
    pub user_agent: String,
    pub timeout_s: f64,
    pub roots: String,
    pub verify: bool,
}

impl Request {
    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }

    /// How long the whole exchange may take; `None` if that is no time.
    pub fn patience(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.timeout_s).ok()
    }

    /// The same; an error is one sentence.
    pub fn limit(&self) -> Result<Duration, String> {
        self.patience()
            .ok_or_else(|| format!("timeout_s: {} is no time", self.timeout_s))
    }

    /// An error, in one sentence, unless the certificate is to be verified.
    pub fn verifies(&self) -> Result<(), String> {
        match self.verify {
            true => Ok(()),
            false => Err("this client always verifies: leave `verify` true".to_owned()),
        }
    }
}

/// How a request ended, in words of the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Complete,
    Timeout,
    ConnectFailed,
    Reset,
    Blocked,
    #[default]
    Failed,
}

/// The end of a request. Times in microseconds from `started_at` (ns, UTC); `None`: did not happen.
#[derive(Debug, Default, Serialize)]
pub struct Answer {
    pub end: End,
    pub detail: Option<String>,
    pub started_at: Option<u64>,
    pub tls_us: Option<u64>,
    pub duration_us: Option<u64>,
    pub status: Option<u16>,
    pub body_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"url":"https://a.test/","host":"a.test","ip":"127.0.0.1","port":443,"path":"/","user_agent":"x",
        "timeout_s":SECONDS,"max_bytes":1,"roots":"r.pem","verify":true,"http":"3"}"#;

    #[test]
    fn a_request_is_a_line_of_the_contract() {
        let of = |seconds: &str| serde_json::from_str::<Request>(&LINE.replace("SECONDS", seconds));
        let request = of("1.5").expect("a request");
        assert_eq!(request.patience(), Some(Duration::from_millis(1500)));
        assert_eq!(request.address().to_string(), "127.0.0.1:443");
        assert_eq!(of("-1").expect("a number").patience(), None);
        for broken in ["", "{}", "[]", &LINE.replace("127.0.0.1", "a.test")] {
            assert!(serde_json::from_str::<Request>(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn ends_are_the_words_of_the_contract() {
        for (end, word) in [
            (End::Complete, "complete"),
            (End::ConnectFailed, "connect_failed"),
        ] {
            assert_eq!(serde_json::to_value(end).expect("JSON"), word);
        }
    }
}
