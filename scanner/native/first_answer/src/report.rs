//! Reports on standard error: of a finished run, of a dry run.

use crate::counts::Counts;
use crate::outcome::Outcome;
use crate::summary::Summary;
use firstflight_core::inputs::Lists;

/// Reports what came of a run.
pub fn finished(summary: &Summary) {
    let counts = &summary.counts;
    let records = counts.tally.records();
    eprintln!(
        "probe: {records} of {} targets in {:.1} s: {}",
        counts.tally.targets,
        summary.duration_s,
        outcomes(counts)
    );
    if counts.tally.rejected > 0 {
        eprintln!(
            "probe: {} lines of {} were rejected",
            counts.tally.rejected, summary.targets_file
        );
    }
    if counts.missing_tx_stamps > 0 {
        eprintln!(
            "probe: warning: {} records have no times, because the kernel gave no transmit stamp for \
             their Initial; the network driver may not support software time stamps",
            counts.missing_tx_stamps
        );
    }
    if counts.missing_rx_stamps > 0 {
        eprintln!(
            "probe: warning: {} datagrams came without a time stamp and were dropped",
            counts.missing_rx_stamps
        );
    }
    if summary.interrupted {
        eprintln!(
            "probe: interrupted; {} targets have no record",
            counts.tally.not_done
        );
    }
}

/// Reports what a run with these lists would do, at `rate` new probes per second.
pub fn dry_run(lists: &Lists, rate: f64) {
    let list = &lists.targets;
    let blocked = list
        .iter()
        .filter(|target| lists.policy.check(target.ip(), target.domain).is_err())
        .count();
    let open = list.len() - blocked;
    eprintln!(
        "probe: dry run: {} targets, {blocked} of them blocked, {} lines rejected; {open} would be \
         probed at {rate} per second in {:.0} s at least; nothing was sent",
        list.len(),
        list.rejected,
        open as f64 / rate
    );
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
