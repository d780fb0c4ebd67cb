//! Reports on standard error: of a finished run, of a dry run.

use firstflight_core::connected::Server;
use firstflight_usage::tell;

use crate::resolvers::Named;
use crate::summary::Summary;
use crate::wire::types::QType;

/// Reports what came of a run.
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
            summary.names_file
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
            "resolve: interrupted; {} names that were begun have no rows",
            counts.not_done
        );
    }
}

/// Reports what a run would do.
pub fn dry_run(resolvers: &[Named], servers: &[Server], types: &[QType]) {
    let types: Vec<&str> = types.iter().map(|qtype| qtype.name()).collect();
    for (resolver, server) in resolvers.iter().zip(servers) {
        let rate = match server.rate {
            Some(rate) => format!("at most {rate} questions per second"),
            None => "without a limit of the rate".to_owned(),
        };
        tell!(
            "resolve: dry run: {} would be asked for {}, {rate}",
            resolver.label(),
            types.join(", ")
        );
    }
    tell!("resolve: dry run: nothing was sent");
}
