//! Reports a run's progress: a bar on a terminal, a line every few seconds elsewhere, and a file for
//! other programs. The reports include the speed of the run and the reason that limits it.

mod limit;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::output::whole_file::replace;
use firstflight_usage::tell;
pub use limit::Limit;
use limit::Span;

/// Time between two updates of the bar, between two lines, and between two states in the file.
const BAR_PAUSE: Duration = Duration::from_millis(200);
const LINE_PAUSE: Duration = Duration::from_secs(5);
const FILE_PAUSE: Duration = Duration::from_millis(500);

/// A run's state. `left`: targets that have not started, if known.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub done: u64,
    pub left: Option<u64>,
    pub in_flight: usize,
    pub limit: Limit,
}

/// The content of the file.
#[derive(Debug, Serialize)]
struct Written {
    done: u64,
    left: Option<u64>,
    in_flight: usize,
    per_s: f64,
    limit: &'static str,
}

/// Reports on standard error, and to a file.
pub struct Progress {
    name: &'static str,
    bar: Option<ProgressBar>,
    shown: Span,
    file: Option<(PathBuf, Span)>,
}

impl Progress {
    /// Creates a report for `targets` targets, if known. `name`: prefix of each line; `file`: path for the
    /// states (JSON).
    pub fn new(name: &'static str, targets: Option<u64>, file: Option<&Path>) -> Self {
        Self::begun(name, targets, file, Instant::now())
    }

    /// Like [`Self::new`], for a run that starts at `now`.
    fn begun(name: &'static str, targets: Option<u64>, file: Option<&Path>, now: Instant) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let template = match targets {
                Some(_) => "{bar:30} {pos}/{len} {per_sec} {eta} {msg}",
                None => "{spinner} {pos} {per_sec} {msg}",
            };
            let bar = targets.map_or_else(ProgressBar::no_length, ProgressBar::new);
            let style = ProgressStyle::with_template(template);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Progress {
            name,
            bar,
            shown: Span::new(if terminal { BAR_PAUSE } else { LINE_PAUSE }, now),
            file: file.map(|path| (path.to_owned(), Span::new(FILE_PAUSE, now))),
        }
    }

    /// Notes the state, and reports it at most as often as the pauses allow.
    pub fn tick(&mut self, state: &Now) {
        self.tick_at(Instant::now(), state);
    }

    fn tick_at(&mut self, now: Instant, state: &Now) {
        if let Some((path, span)) = &mut self.file
            && let Some((per_s, limit)) = span.note(now, state)
        {
            let written = Written {
                done: state.done,
                left: state.left,
                in_flight: state.in_flight,
                per_s,
                limit: limit.words(),
            };
            // A run continues even if the state cannot be written.
            let _ = replace(&written, path);
        }
        let Some((per_s, limit)) = self.shown.note(now, state) else {
            return;
        };
        match &self.bar {
            Some(bar) => {
                bar.set_position(state.done);
                bar.set_message(format!("{} in flight, limit: {limit}", state.in_flight));
            }
            None => tell!("{}: {}", self.name, line(state, per_s, limit)),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(state: &Now, per_s: f64, limit: Limit) -> String {
    let left = state.left.map_or_else(String::new, |left| match left {
        0 => ", 0 to go".to_owned(),
        _ if per_s < 0.05 => format!(", {left} to go"),
        _ => format!(", {left} to go in {:.0} s", left as f64 / per_s),
    });
    let (done, in_flight) = (state.done, state.in_flight);
    format!("{done} done, {per_s:.1} a second, {in_flight} in flight{left}, limit: {limit}")
}

#[cfg(test)]
mod tests;
