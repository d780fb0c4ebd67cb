//! A run's summary.

use firstflight_core::connected::{Sent, Server};
use firstflight_core::policy::Followed;
use serde::Serialize;

use crate::engine::RunResult;
use crate::program::options::Options;
use crate::questions::resolvers::Resolver;
use crate::results::counts::Counts;

/// A run's settings and results.
#[derive(Serialize)]
pub struct Summary {
    pub tool: &'static str,
    pub tool_version: &'static str,
    pub names_file: Option<String>,
    pub interrupted: bool,
    /// Whether the run stopped because no resolver answers.
    pub resolvers_down: bool,
    #[serde(flatten)]
    pub counts: Counts,
    pub sent: Sent,
    #[serde(flatten)]
    pub lists: Followed,
    pub resolvers: Vec<Asked>,
    pub types: Vec<&'static str>,
    pub concurrency: u32,
    pub timeout_ms: u64,
    pub attempts: u8,
    pub contact: Option<String>,
    pub duration_s: f64,
    /// Last segment written.
    pub last_segment: Option<u32>,
}

/// A resolver with the rate and results.
#[derive(Serialize)]
pub struct Asked {
    #[serde(flatten)]
    resolver: Option<Resolver>,
    /// Questions per second; null: no limit.
    rate: Option<f64>,
    /// Highest number of questions in any second; null without a limit.
    max_per_second: Option<u64>,
    /// Whether the resolver preserves the case of names, so that its questions use random case.
    keeps_case: bool,
}

impl Summary {
    /// Creates a summary with the settings; [`Self::take`] adds the results.
    pub fn new(options: &Options, servers: &[Server]) -> Self {
        let asked = |server: &Server| Asked {
            resolver: None,
            rate: server.rate,
            max_per_second: None,
            keeps_case: false,
        };
        Summary {
            tool: "firstflight-resolve",
            tool_version: env!("CARGO_PKG_VERSION"),
            names_file: options
                .names
                .as_ref()
                .map(|list| list.display().to_string()),
            interrupted: false,
            resolvers_down: false,
            counts: Counts::default(),
            sent: Sent::default(),
            lists: Followed::default(),
            resolvers: servers.iter().map(asked).collect(),
            types: options
                .distinct_types()
                .iter()
                .map(|qtype| qtype.name())
                .collect(),
            concurrency: options.concurrency,
            timeout_ms: (options.timeout * 1000.0).round() as u64,
            attempts: options.attempts,
            contact: options.contact.clone(),
            duration_s: 0.0,
            last_segment: None,
        }
    }

    /// Adds the results of the run.
    pub fn take(&mut self, result: &RunResult) {
        self.interrupted = result.interrupted;
        self.resolvers_down = result.down;
        self.counts = result.table.counts.clone();
        self.sent = result.connected.sent();
        self.lists = result.connected.followed();
        for (number, asked) in self.resolvers.iter_mut().enumerate() {
            asked.resolver = result.table.resolvers.all().get(number).cloned();
            asked.max_per_second = result.connected.highest(number);
            asked.keeps_case = result.table.resolvers.keeps_case(number);
        }
    }
}
