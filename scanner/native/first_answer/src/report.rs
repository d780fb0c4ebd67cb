//! Reports on standard error: of a finished run, of a dry run.

use crate::summary::Summary;
use firstflight_core::inputs::Lists;
use firstflight_usage::tell;

/// Reports what came of a run.
pub fn finished(summary: &Summary) {
    for line in lines(summary) {
        tell!("probe: {line}");
    }
}

/// Returns the message about a finished run.
fn lines(summary: &Summary) -> Vec<String> {
    let counts = &summary.counts;
    let mut lines = vec![format!(
        "{} of {} targets in {:.1} s: {}",
        counts.tally.records(),
        counts.tally.targets,
        summary.duration_s,
        counts.tally.in_words()
    )];
    if counts.tally.rejected > 0 {
        lines.push(format!(
            "{} lines of {} were rejected",
            counts.tally.rejected, summary.targets_file
        ));
    }
    if counts.missing_tx_stamps > 0 {
        lines.push(format!(
            "warning: {} records have no times, because the kernel gave no transmit stamp for their \
             Initial; the network driver may not support software time stamps",
            counts.missing_tx_stamps
        ));
    }
    if counts.missing_rx_stamps > 0 {
        lines.push(format!(
            "warning: {} datagrams came without a time stamp and were dropped",
            counts.missing_rx_stamps
        ));
    }
    if summary.interrupted {
        lines.push(format!(
            "interrupted; {} targets have no record",
            counts.tally.not_done
        ));
    }
    lines
}

/// Reports what a run with these lists would do, at `rate` new probes per second.
pub fn dry_run(lists: &Lists, rate: f64) {
    tell!("probe: {}", lists.plan(rate));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;
    use crate::options::Options;
    use crate::outcome::Outcome;
    use clap::Parser;
    use firstflight_core::egress::Ports;

    /// A summary of a run of three targets, of which two have a record.
    fn summary() -> Summary {
        let arguments = ["firstflight-prober", "--targets", "list.csv"];
        let options = Options::try_parse_from(arguments).unwrap();
        let ports = Ports::bind(&[], None, [false, false], 0).unwrap();
        let mut summary = Summary::new(&options, &ports, String::new(), 1);
        summary.duration_s = 1.26;
        let tally = &mut summary.counts.tally;
        tally.targets = 3;
        tally.record(Outcome::Timeout, true);
        tally.record(Outcome::Iack, true);
        summary
    }

    #[test]
    fn a_run_without_anything_special_is_one_line() {
        assert_eq!(
            lines(&summary()),
            ["2 of 3 targets in 1.3 s: iack 1, timeout 1"]
        );
        let mut nothing = summary();
        nothing.counts = Counts::default();
        assert_eq!(lines(&nothing), ["0 of 0 targets in 1.3 s: no records"]);
    }

    #[test]
    fn each_circumstance_has_its_line() {
        type Change = fn(&mut Summary);
        let cases: [(&str, Change, &str); 4] = [
            (
                "rejected",
                |summary| summary.counts.tally.rejected = 1,
                "1 lines of list.csv were rejected",
            ),
            (
                "no transmit stamp",
                |summary| summary.counts.missing_tx_stamps = 1,
                "warning: 1 records have no times, because the kernel gave no transmit stamp for \
                 their Initial; the network driver may not support software time stamps",
            ),
            (
                "no receive stamp",
                |summary| summary.counts.missing_rx_stamps = 1,
                "warning: 1 datagrams came without a time stamp and were dropped",
            ),
            (
                "interrupted",
                |summary| (summary.interrupted, summary.counts.tally.not_done) = (true, 1),
                "interrupted; 1 targets have no record",
            ),
        ];
        for (name, change, line) in cases {
            let mut summary = summary();
            change(&mut summary);
            assert_eq!(lines(&summary)[1..], [line], "{name}");
        }
    }
}
