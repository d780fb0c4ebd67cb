//! Answers.

use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// How a transfer can end, as the client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Complete,
    Limit,
    WireLimit,
    Short,
    Timeout,
    ConnectFailed,
    TlsFailed,
    Reset,
    Blocked,
    #[default]
    Failed,
}

/// The end of one download. Times in microseconds from `started_at` (ns, UTC); `None`: did not happen, or this client
/// does not measure it.
#[derive(Debug, Default, Serialize)]
pub struct ClientAnswer {
    pub end: End,
    pub detail: Option<String>,
    pub started_at: Option<u64>,
    pub client_ip: Option<IpAddr>,
    pub client_port: Option<u16>,
    pub connect_us: Option<u64>,
    pub tls_us: Option<u64>,
    pub first_byte_us: Option<u64>,
    pub duration_us: Option<u64>,
    pub cpu_us: Option<u64>,
    pub status: Option<u16>,
    pub http_version: Option<&'static str>,
    pub tls_version: Option<&'static str>,
    pub cipher: Option<String>,
    pub tls_group: Option<String>,
    pub tls_verified: Option<bool>,
    pub body_bytes: u64,
    pub content_length: Option<u64>,
    pub headers: Option<BTreeMap<String, String>>,
    pub receive_buffer: Option<u64>,
    pub udp_drops: Option<u64>,
    pub wire_bytes: Option<u64>,
}

impl ClientAnswer {
    /// Returns the answer to a request for an address that the client may not contact. `why` is one sentence.
    pub fn blocked(why: String) -> Self {
        ClientAnswer {
            end: End::Blocked,
            detail: Some(why),
            ..ClientAnswer::default()
        }
    }
}

/// Returns the time of day for `started_at`.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_the_words_of_the_contract() {
        for (end, word) in [
            (End::Complete, "complete"),
            (End::ConnectFailed, "connect_failed"),
            (End::WireLimit, "wire_limit"),
            (End::TlsFailed, "tls_failed"),
        ] {
            assert_eq!(serde_json::to_value(end).expect("JSON"), word);
        }
    }

    #[test]
    fn a_blocked_address_is_not_zero_bytes() {
        let line = serde_json::to_value(ClientAnswer::blocked("no".to_owned())).expect("JSON");
        assert_eq!(
            (&line["end"], &line["detail"]),
            (&"blocked".into(), &"no".into())
        );
        for name in ["started_at", "tls_us", "status", "headers", "wire_bytes"] {
            assert!(line[name].is_null(), "{name}");
        }
    }
}
