//! What a download client takes and gives: one JSON object a line (`downloader/clients/contract.py`).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// One download. Fields of TCP clients are ignored.
#[derive(Debug, Deserialize)]
pub struct Request {
    pub host: String,
    pub ip: IpAddr,
    pub port: u16,
    pub path: String,
    pub user_agent: String,
    pub timeout_s: f64,
    pub max_bytes: u64,
    pub roots: String,
    pub verify: bool,
}

/// How a transfer ended, as a client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Complete,
    Limit,
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
}
