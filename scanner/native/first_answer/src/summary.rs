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
            per_address_rate: options.sending.per_address_rate,
            per_prefix_rate: options.sending.per_prefix_rate,
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
            contact: options.sending.contact.clone(),
            template_sha256,
            sources: options
                .sending
                .source
                .iter()
                .map(ToString::to_string)
                .collect(),
            source_ports: ports.locals().iter().map(|local| local.port()).collect(),
            seed,
            last_segment: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn settings_in_force_are_those_of_the_options() {
        let arguments = [
            "firstflight-prober",
            "--targets",
            "list.csv",
            "--rate",
            "2345",
            "--per-address-rate",
            "2",
            "--per-prefix-rate",
            "30",
            "--timeout",
            "1.25",
            "--settle-ms",
            "70",
            "--linger-ms",
            "400",
            "--attempts",
            "3",
            "--source",
            "127.77.1.1",
            "--contact",
            "research@example.org",
        ];
        let options = Options::try_parse_from(arguments).unwrap();
        let ports = Ports::bind(
            &options.sending.source,
            Some((4000, 4002)),
            [true, false],
            0,
        )
        .unwrap();
        let summary = Summary::new(&options, &ports, "cafe".to_owned(), 99);
        let json = serde_json::to_value(&summary).unwrap();
        for (key, value) in [
            ("tool", serde_json::json!("firstflight-prober")),
            ("targets_file", "list.csv".into()),
            ("interrupted", false.into()),
            ("rate", 2345.0.into()),
            ("per_address_rate", 2.0.into()),
            ("per_prefix_rate", 30.0.into()),
            ("batch", 23.into()),
            ("answer_window_ms", 1250.into()),
            ("settle_ms", 70.into()),
            ("linger_ms", 400.into()),
            ("attempts", 3.into()),
            ("initial_size_ipv4", 1252.into()),
            ("initial_size_ipv6", 1232.into()),
            ("contact", "research@example.org".into()),
            ("template_sha256", "cafe".into()),
            ("sources", vec!["127.77.1.1"].into()),
            ("source_ports", vec![4000, 4001, 4002].into()),
            ("seed", 99.into()),
            ("last_segment", serde_json::Value::Null),
            ("closes", 0.into()),
            ("targets", 0.into()),
        ] {
            assert_eq!(json[key], value, "{key}");
        }
    }

    #[test]
    fn a_run_without_a_list_names_no_file() {
        let arguments = ["firstflight-prober", "--feed", "--segments", "x"];
        let options = Options::try_parse_from(arguments).unwrap();
        let ports = Ports::bind(&[], None, [false, false], 0).unwrap();
        let summary = Summary::new(&options, &ports, String::new(), 1);
        assert!(summary.targets_file.is_empty() && summary.source_ports.is_empty());
    }
}
