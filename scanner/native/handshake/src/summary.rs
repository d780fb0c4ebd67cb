//! A run's summary, for the manifest.

use firstflight_core::conclusion::{Common, RunSummary};
use firstflight_core::egress::Ports;
use serde::Serialize;

use crate::counts::Counts;
use crate::options::Options;
use crate::tls::Sni;

/// Settings in force, and results.
#[derive(Serialize)]
pub struct Summary {
    #[serde(flatten)]
    pub common: Common<Counts>,
    pub timeout_ms: u64,
    pub linger_ms: u64,
    pub key_share: String,
    /// QUIC versions offered. The first one is the version of the first packet.
    pub versions: Vec<String>,
    pub sni: bool,
    pub second: bool,
    pub ech: String,
    pub alpn: Vec<String>,
    pub verify: String,
    /// Root certificates for the checks of chains. `None`: chains are not checked.
    pub roots: Option<String>,
    pub path: String,
    pub user_agent: String,
}

impl Summary {
    /// Creates a summary with the settings in force. Results are added when the run is finished.
    pub fn new(options: &Options, ports: &Ports, roots: Option<String>, seed: u64) -> Self {
        Summary {
            common: Common::new(
                ("firstflight-handshake", env!("CARGO_PKG_VERSION")),
                options.targets.as_deref(),
                options.rate,
                &options.sending,
                ports,
                seed,
            ),
            timeout_ms: (options.timeout * 1000.0).round() as u64,
            linger_ms: u64::from(options.linger_ms),
            key_share: format!("{:?}", options.key_share).to_lowercase(),
            versions: options.versions.0.iter().map(ToString::to_string).collect(),
            sni: options.sni == Sni::Target,
            second: options.second,
            ech: format!("{:?}", options.ech).to_lowercase(),
            alpn: options.alpn.clone(),
            verify: format!("{:?}", options.verify).to_lowercase(),
            roots,
            path: options.path.clone(),
            user_agent: options.user_agent(),
        }
    }
}

impl RunSummary for Summary {
    type Counts = Counts;

    fn common(&mut self) -> &mut Common<Counts> {
        &mut self.common
    }
}
