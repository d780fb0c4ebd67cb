//! The end of a run over a list of targets: the summary, report and exit status.

use std::path::Path;

use firstflight_usage::tell;
use serde::Serialize;

use crate::Failure;
use crate::limits::policy::Followed;
use crate::limits::rate_limit::batch;
use crate::output::records::{Outcome, OutputArguments, Tally, summary};
use crate::runs::arguments::SendingArguments;
use crate::sockets::egress::Ports;

/// The counts of an engine's run.
pub trait Counted: Default + Serialize {
    /// A record's outcome.
    type Outcome: Outcome;

    /// Returns the counts of targets and records.
    fn tally(&self) -> &Tally<Self::Outcome>;

    /// Returns the number of records without times because a transmit stamp is missing, and the number of
    /// datagrams dropped because a receive stamp is missing.
    fn missing_stamps(&self) -> (u64, u64);
}

/// A finished run's result.
pub struct RunResult<C> {
    pub counts: C,
    /// Most new targets and most datagrams in any second.
    pub highest: (u64, u64),
    pub lists: Followed,
    pub interrupted: bool,
    /// Number of the last segment, or why records could not be written.
    pub written: Result<u32, Failure>,
}

/// The fields that the summaries of all engines share.
#[derive(Serialize)]
pub struct Common<C> {
    pub tool: &'static str,
    pub tool_version: &'static str,
    pub targets_file: String,
    pub interrupted: bool,
    #[serde(flatten)]
    pub counts: C,
    pub rate: f64,
    pub per_address_rate: f64,
    pub per_prefix_rate: f64,
    /// Most new targets per batch.
    pub batch: u64,
    /// Most new targets in any second.
    pub max_new_per_second: u64,
    /// Most datagrams of all kinds in any second.
    pub max_datagrams_per_second: u64,
    #[serde(flatten)]
    pub lists: Followed,
    pub duration_s: f64,
    pub contact: Option<String>,
    pub sources: Vec<String>,
    pub source_ports: Vec<u16>,
    /// Seed of the random order.
    pub seed: u64,
    /// Last segment written.
    pub last_segment: Option<u32>,
}

impl<C: Counted> Common<C> {
    /// Creates a summary with the settings in force of the program `tool` (name and version). [`conclude`]
    /// fills in the results.
    pub fn new(
        tool: (&'static str, &'static str),
        targets: Option<&Path>,
        rate: f64,
        sending: &SendingArguments,
        ports: &Ports,
        seed: u64,
    ) -> Self {
        Common {
            tool: tool.0,
            tool_version: tool.1,
            targets_file: targets.map_or(String::new(), |path| path.display().to_string()),
            interrupted: false,
            counts: C::default(),
            rate,
            per_address_rate: sending.per_address_rate,
            per_prefix_rate: sending.per_prefix_rate,
            batch: batch(rate),
            max_new_per_second: 0,
            max_datagrams_per_second: 0,
            lists: Followed::default(),
            duration_s: 0.0,
            contact: sending.contact.clone(),
            sources: sending.source.iter().map(ToString::to_string).collect(),
            source_ports: ports.locals().iter().map(|local| local.port()).collect(),
            seed,
            last_segment: None,
        }
    }

    /// Returns the lines of the report about a finished run.
    fn lines(&self) -> Vec<String> {
        let tally = self.counts.tally();
        let mut lines = vec![format!(
            "{} of {} targets in {:.1} s: {}",
            tally.records(),
            tally.targets,
            self.duration_s,
            tally.in_words()
        )];
        if tally.rejected > 0 {
            lines.push(format!(
                "{} lines of {} were rejected",
                tally.rejected, self.targets_file
            ));
        }
        let (transmit, receive) = self.counts.missing_stamps();
        if transmit > 0 {
            lines.push(format!(
                "warning: {transmit} records have no times, because the kernel gave no transmit stamp for \
                 their Initial; the network driver may not support software time stamps"
            ));
        }
        if receive > 0 {
            lines.push(format!(
                "warning: {receive} datagrams without a receive stamp were dropped"
            ));
        }
        if let Some(held) = self.lists.unconfirmed_s.filter(|held| *held > 0.0) {
            lines.push(format!(
                "no probe started for {held:.1} s, because the opt-out list was not confirmed"
            ));
        }
        if self.interrupted {
            lines.push(format!(
                "interrupted; {} targets have no record",
                tally.not_done
            ));
        }
        lines
    }
}

/// The summary of an engine's run.
pub trait RunSummary: Serialize {
    /// The engine's counts.
    type Counts: Counted;

    /// Returns the fields that all engines share.
    fn common(&mut self) -> &mut Common<Self::Counts>;
}

/// Reports the result of a run of `name` that took `duration_s`, writes the summary, and returns the exit
/// status.
pub fn conclude<S: RunSummary>(
    name: &str,
    output: &OutputArguments,
    mut run: S,
    duration_s: f64,
    result: RunResult<S::Counts>,
) -> Result<u8, Failure> {
    let common = run.common();
    common.duration_s = duration_s;
    common.interrupted = result.interrupted;
    (common.max_new_per_second, common.max_datagrams_per_second) = result.highest;
    common.lists = result.lists;
    common.counts = result.counts;
    let last = result.written.as_ref().ok().copied();
    common.last_segment = last.filter(|_| output.segments.is_some());
    for line in common.lines() {
        tell!("{name}: {line}");
    }
    if let Some(path) = &output.summary {
        summary::write(&run, path)?;
    }
    result.written?;
    let common = run.common();
    common.counts.tally().check()?;
    Ok(if common.interrupted {
        130
    } else {
        u8::from(common.counts.tally().rejected > 0)
    })
}

#[cfg(test)]
mod tests;
