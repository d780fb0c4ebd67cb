//! A run's summary, for the manifest.

use firstflight_core::Failure;
use firstflight_core::conclusion::{Common, RunSummary};
use firstflight_core::connects::SYNS;
use firstflight_core::egress::Ports;
use serde::Serialize;

use crate::counts::Counts;
use crate::offered::Offered;
use crate::options::Options;

/// A run's settings and results.
#[derive(Serialize)]
pub struct Summary {
    #[serde(flatten)]
    pub common: Common<Counts>,
    pub timeout_ms: u64,
    pub attempts: u8,
    /// Maximum number of SYNs for a connection.
    pub syns: u32,
    pub offered_timestamps: bool,
    pub offered_sack: bool,
    pub offered_window_scaling: bool,
    pub offered_ecn: bool,
}

impl Summary {
    /// Creates a summary with the settings; the results are filled in at the end.
    pub fn new(options: &Options, offered: Offered, seed: u64) -> Result<Self, Failure> {
        // Each connection has its own port, which the system chooses when the connection starts.
        let ports = Ports::bind(&[], None, [false; 2], 0)?;
        Ok(Summary {
            common: Common::new(
                ("firstflight-tcp-options", env!("CARGO_PKG_VERSION")),
                options.targets.as_deref(),
                options.rate,
                &options.sending,
                &ports,
                seed,
            ),
            timeout_ms: (options.timeout * 1000.0).round() as u64,
            attempts: options.attempts,
            syns: SYNS,
            offered_timestamps: offered.timestamps,
            offered_sack: offered.sack,
            offered_window_scaling: offered.window_scaling,
            offered_ecn: offered.ecn,
        })
    }
}

impl RunSummary for Summary {
    type Counts = Counts;

    fn common(&mut self) -> &mut Common<Counts> {
        &mut self.common
    }
}
