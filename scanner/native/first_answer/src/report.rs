//! Reports on standard error: of a finished run, of a dry run.

use crate::counts::Counts;
use crate::outcome::Outcome;
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
        outcomes(counts)
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
    tell!("probe: {}", plan(lists, rate));
}

/// Returns what a run with these lists would do.
fn plan(lists: &Lists, rate: f64) -> String {
    let list = &lists.targets;
    let blocked = list
        .iter()
        .filter(|target| lists.policy.check(target.ip(), target.domain).is_err())
        .count();
    let open = list.len() - blocked;
    format!(
        "dry run: {} targets, {blocked} of them blocked, {} lines rejected; {open} would be probed at \
         {rate} per second in {:.0} s at least; nothing was sent",
        list.len(),
        list.rejected,
        open as f64 / rate
    )
}

/// Returns the outcomes that occurred, in one line.
fn outcomes(counts: &Counts) -> String {
    let some: Vec<String> = Outcome::ALL
        .into_iter()
        .filter(|outcome| counts.tally.of(*outcome) > 0)
        .map(|outcome| format!("{outcome} {}", counts.tally.of(outcome)))
        .collect();
    if some.is_empty() {
        "no records".to_owned()
    } else {
        some.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use clap::Parser;
    use firstflight_core::egress::Ports;
    use firstflight_core::inputs::InputOptions;

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

    #[test]
    fn a_dry_run_counts_what_would_be_probed_and_how_long_it_takes() {
        let folder = std::env::temp_dir().join(format!("report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [list, blocklist] = ["list.csv", "block.txt"].map(|name| folder.join(name));
        let rows: String = (1..=7).map(|i| format!("127.0.0.{i},,443\n")).collect();
        std::fs::write(&list, format!("ip,domain,port\n{rows}nonsense\n")).unwrap();
        std::fs::write(&blocklist, "127.0.0.3\n").unwrap();
        let lists = Lists::read(&InputOptions {
            name: "probe",
            targets: Some(&list),
            feed: false,
            allow_net: &["127.0.0.0/8".to_owned()],
            blocklist: &[blocklist],
            optout: &[],
            source: &[],
            contact: false,
        });
        let text = plan(&lists.unwrap(), 2.0);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            text,
            "dry run: 7 targets, 1 of them blocked, 1 lines rejected; 6 would be probed at 2 per second \
             in 3 s at least; nothing was sent"
        );
    }
}
