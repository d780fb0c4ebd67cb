//! Reports on standard error about a finished run or a dry run.

use firstflight_core::connected::Server;
use firstflight_usage::tell;

use crate::program::summary::Summary;
use crate::questions::resolvers::Named;
use crate::wire::types::QType;

/// Reports a run's results.
pub fn finished(summary: &Summary) {
    let counts = &summary.counts;
    let some: Vec<String> = counts
        .by_status()
        .filter(|(_, count)| *count > 0)
        .map(|(status, count)| format!("{} {count}", status.name()))
        .collect();
    let statuses = if some.is_empty() {
        "no answers".to_owned()
    } else {
        some.join(", ")
    };
    tell!(
        "resolve: {} names in {:.1} s: {statuses}",
        counts.names,
        summary.duration_s
    );
    if counts.rejected > 0 {
        tell!(
            "resolve: {} lines of {} were rejected",
            counts.rejected,
            summary.names_file.as_deref().unwrap_or("the names")
        );
    }
    if counts.unmatched + counts.foreign + summary.sent.from_elsewhere > 0 {
        tell!(
            "resolve: {} messages belong to no open question, {} answer another one, {} came from \
             elsewhere; they were ignored",
            counts.unmatched,
            counts.foreign,
            summary.sent.from_elsewhere
        );
    }
    if summary.interrupted {
        tell!(
            "resolve: interrupted; {} started names have no rows",
            counts.not_done
        );
    }
}

/// Reports a run's plan.
pub fn dry_run(resolvers: &[Named], servers: &[Server], types: &[QType]) {
    let types: Vec<&str> = types.iter().map(|qtype| qtype.name()).collect();
    for (resolver, server) in resolvers.iter().zip(servers) {
        let rate = match server.rate {
            Some(rate) => format!("at most {rate} questions per second"),
            None => "without a rate limit".to_owned(),
        };
        tell!(
            "resolve: dry run: {} would be queried for {}, {rate}",
            resolver.label(),
            types.join(", ")
        );
    }
    tell!("resolve: dry run: nothing was sent");
}
