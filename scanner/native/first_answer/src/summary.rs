//! A run's summary, for the manifest.

use firstflight_core::conclusion::{Common, RunSummary};
use firstflight_core::egress::Ports;
use serde::Serialize;

use crate::counts::Counts;
use crate::ecn::Mark;
use crate::options::{Offered, Options};
use crate::pace::Pace;

/// Settings in force, and results.
#[derive(Serialize)]
pub struct Summary {
    #[serde(flatten)]
    pub common: Common<Counts>,
    pub answer_window_ms: u64,
    pub settle_ms: u64,
    pub linger_ms: u64,
    pub attempts: u8,
    /// Size of all Initials in a family. `None` in a sweep.
    pub initial_size_ipv4: Option<u16>,
    pub initial_size_ipv6: Option<u16>,
    /// Sizes as given, ascending. With several sizes, each target counts once per size.
    pub initial_sizes: Vec<u16>,
    pub listen_s: Option<f64>,
    /// ECN mark of datagrams, and version of Initials.
    pub ecn: Option<&'static str>,
    pub quic_version: &'static str,
    /// SHA-256 of the ClientHello without the fields that differ between probes.
    pub template_sha256: String,
}

impl Summary {
    /// Creates a summary with the settings in force. Results are added when the run is finished.
    pub fn new(options: &Options, ports: &Ports, template_sha256: String, seed: u64) -> Self {
        let sizes = options.sizes();
        let [initial_size_ipv4, initial_size_ipv6] = sizes.by_family();
        let common = Common::new(
            ("firstflight-prober", env!("CARGO_PKG_VERSION")),
            options.targets.as_deref(),
            options.rate,
            &options.sending,
            ports,
            seed,
        );
        Summary {
            common: Common {
                batch: Pace::new(options.rate).batch,
                ..common
            },
            answer_window_ms: (options.timeout * 1000.0).round() as u64,
            settle_ms: u64::from(options.settle_ms),
            linger_ms: u64::from(options.linger_ms),
            attempts: options.attempts,
            initial_size_ipv4,
            initial_size_ipv6,
            initial_sizes: sizes.given().to_vec(),
            listen_s: options.listen,
            ecn: options.ecn.map(Mark::name),
            quic_version: match options.offered {
                Offered::V1 => "1",
                Offered::Reserved => "reserved",
            },
            template_sha256,
        }
    }
}

impl RunSummary for Summary {
    type Counts = Counts;

    fn common(&mut self) -> &mut Common<Counts> {
        &mut self.common
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
            ("initial_sizes", serde_json::json!([])),
            ("listen_s", serde_json::Value::Null),
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
        assert!(summary.common.targets_file.is_empty() && summary.common.source_ports.is_empty());
    }
}
