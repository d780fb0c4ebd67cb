//! What a download client takes and gives: one JSON object a line (`downloader/clients/contract.py`).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// One download, or with [`Method::Head`] the question whether there is one. Fields of TCP clients are ignored.
#[derive(Debug, Deserialize)]
pub struct Request {
    pub host: String,
    pub ip: IpAddr,
    pub port: u16,
    pub path: String,
    pub user_agent: String,
    pub timeout_s: f64,
    pub max_bytes: u64,
    /// Of all datagrams that arrive, with their headers; `None`: no limit.
    #[serde(default)]
    pub max_wire_bytes: Option<u64>,
    pub roots: String,
    pub verify: bool,
    #[serde(default)]
    pub method: Method,
}

/// What is asked for: the file, or only its header section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Get,
    Head,
}

impl Method {
    /// The value of `:method`.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
        }
    }
}

/// How a transfer ended, as a client sees it.
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

/// The end of one download. Times in microseconds from `started_at` (ns, UTC); None: did not happen.
#[derive(Debug, Default, Serialize)]
pub struct Answer {
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
    pub headers: BTreeMap<String, String>,
    pub receive_buffer: Option<u64>,
    pub udp_drops: Option<u64>,
    pub wire_bytes: u64,
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const LINE: &str = r#"{"url":"https://a.test/","host":"a.test","ip":"127.0.0.1","port":443,"path":"/","user_agent":"x",
        "timeout_s":1.5,"max_bytes":LIMIT,"roots":"r.pem","verify":true,"window_clamp":null,"http":"3""#;

    /// A request that ends at so many bytes.
    pub fn request(limit: u64) -> Request {
        let line = LINE.replace("LIMIT", &limit.to_string()) + "}";
        serde_json::from_str(&line).expect("a request")
    }

    #[test]
    fn a_request_is_a_line_of_the_contract() {
        assert_eq!(request(10).method, Method::Get);
        let line = LINE.replace("LIMIT", "10");
        let method = |more: &str| serde_json::from_str::<Request>(&format!("{line}{more}}}"));
        let head = method(r#","method":"HEAD""#).expect("a request");
        assert_eq!((head.method, head.method.name()), (Method::Head, "HEAD"));
        assert!(method(r#","method":"POST""#).is_err());
        for broken in [
            "",
            "{}",
            "[]",
            &line,
            &format!("{line}}}").replace("127.0.0.1", "a.test"),
        ] {
            assert!(serde_json::from_str::<Request>(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn ends_are_the_words_of_the_contract() {
        for (end, word) in [
            (End::Complete, "complete"),
            (End::ConnectFailed, "connect_failed"),
            (End::WireLimit, "wire_limit"),
            (End::TlsFailed, "tls_failed"),
        ] {
            let line = serde_json::to_value(Answer {
                end,
                ..Answer::default()
            })
            .expect("JSON");
            assert_eq!(line["end"], word);
        }
    }
}
