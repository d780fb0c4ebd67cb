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
    /// Probes that leave at once at most.
    pub batch: u64,
    /// Most new probes in any second.
    pub max_new_per_second: u64,
    /// Most datagrams of all kinds in any second.
    pub max_datagrams_per_second: u64,
    pub duration_s: f64,
    pub answer_window_ms: u64,
    pub settle_ms: u64,
    pub linger_ms: u64,
    pub attempts: u8,
    pub initial_size_ipv4: u16,
    pub initial_size_ipv6: u16,
    pub contact: Option<String>,
    /// SHA-256 of the ClientHello without what differs between probes.
    pub template_sha256: String,
    pub sources: Vec<String>,
    pub source_ports: Vec<u16>,
    /// Of the random order.
    pub seed: u64,
    /// Last segment written.
    pub last_segment: Option<u32>,
}

impl Summary {
    /// The settings in force; what comes of them is filled in at the end.
    pub fn new(options: &Options, ports: &Ports, template_sha256: String, seed: u64) -> Self {
        let [initial_size_ipv4, initial_size_ipv6] = options.initial_sizes();
        Summary {
            tool: "firstflight-prober",
            tool_version: env!("CARGO_PKG_VERSION"),
            targets_file: options
                .targets
                .as_ref()
                .map_or(String::new(), |path| path.display().to_string()),
            interrupted: false,
            counts: Counts::default(),
            rate: options.rate,
            per_address_rate: options.per_address_rate,
            per_prefix_rate: options.per_prefix_rate,
            batch: batch(options.rate),
            max_new_per_second: 0,
            max_datagrams_per_second: 0,
            duration_s: 0.0,
            answer_window_ms: (options.timeout * 1000.0).round() as u64,
            settle_ms: u64::from(options.settle_ms),
            linger_ms: u64::from(options.linger_ms),
            attempts: options.attempts,
            initial_size_ipv4,
            initial_size_ipv6,
            contact: options.contact.clone(),
            template_sha256,
            sources: options.source.iter().map(ToString::to_string).collect(),
            source_ports: ports.locals().iter().map(|local| local.port()).collect(),
            seed,
            last_segment: None,
        }
    }
}
