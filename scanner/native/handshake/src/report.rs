//! Reports on standard error: of a finished run.

use firstflight_usage::tell;

use crate::summary::Summary;

/// Reports what came of a run.
pub fn finished(summary: &Summary) {
    for line in lines(summary) {
        tell!("handshake: {line}");
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
            "warning: {} records have no times, because the kernel gave no transmit stamp",
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
