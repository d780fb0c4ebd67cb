//! The summary of a run, for its manifest.

use serde::Serialize;

use crate::counts::Counts;
use crate::options::Options;
use firstflight_core::egress::Ports;
use firstflight_core::rate_limit::batch;

/// Settings in force and what came of them.
#[derive(Serialize)]
pub struct Summary {
    pub tool: &'static str,
    pub tool_version: &'static str,
    pub targets_file: String,
    pub interrupted: bool,
    #[serde(flatten)]
    pub counts: Counts,
    pub rate: f64,
    pub per_address_rate: f64,
    pub per_prefix_rate: f64,
    /// Connections that begin at once at most.
    pub batch: u64,
    /// Most new connections in any second.
    pub max_new_per_second: u64,
    /// Most datagrams of all kinds in any second.
    pub max_datagrams_per_second: u64,
    pub duration_s: f64,
    pub timeout_ms: u64,
    pub linger_ms: u64,
    pub key_share: String,
    pub verify: String,
    /// Root certificates that chains are checked against; `None`: not checked.
    pub roots: Option<String>,
    pub path: String,
    pub user_agent: String,
    pub sources: Vec<String>,
    pub source_ports: Vec<u16>,
    /// Of the random order.
    pub seed: u64,
    /// Last segment written.
    pub last_segment: Option<u32>,
}

impl Summary {
    /// The settings in force; what comes of them is filled in at the end.
    pub fn new(options: &Options, ports: &Ports, roots: Option<String>, seed: u64) -> Self {
        let sending = &options.sending;
        Summary {
            tool: "firstflight-handshake",
            tool_version: env!("CARGO_PKG_VERSION"),
            targets_file: options.targets.display().to_string(),
            interrupted: false,
            counts: Counts::default(),
            rate: options.rate,
            per_address_rate: sending.per_address_rate,
            per_prefix_rate: sending.per_prefix_rate,
            batch: batch(options.rate),
            max_new_per_second: 0,
            max_datagrams_per_second: 0,
            duration_s: 0.0,
            timeout_ms: (options.timeout * 1000.0).round() as u64,
            linger_ms: u64::from(options.linger_ms),
            key_share: format!("{:?}", options.key_share).to_lowercase(),
            verify: format!("{:?}", options.verify).to_lowercase(),
            roots,
            path: options.path.clone(),
            user_agent: options.user_agent(),
            sources: sending.source.iter().map(ToString::to_string).collect(),
            source_ports: ports.locals().iter().map(|local| local.port()).collect(),
            seed,
            last_segment: None,
        }
    }
}
