//! Progress on standard error during a run: a bar on a terminal, a line every few seconds elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two updates of a bar, between two lines.
const BAR_PAUSE: Duration = Duration::from_millis(200);
const LINE_PAUSE: Duration = Duration::from_secs(5);

/// Reports on standard error.
pub struct Progress {
    name: &'static str,
    bar: Option<ProgressBar>,
    pause: Duration,
    next: Instant,
}

impl Progress {
    /// For `targets` targets; `name` begins each line.
    pub fn new(name: &'static str, targets: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {per_sec} {eta} {msg}");
            ProgressBar::new(targets)
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let pause = if terminal { BAR_PAUSE } else { LINE_PAUSE };
        Progress {
            name,
            bar,
            pause,
            next: Instant::now() + pause,
        }
    }

    /// Shows the state, not more often than the pause allows.
    pub fn tick(&mut self, done: u64, targets_left: usize, in_flight: usize) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + self.pause;
        match &self.bar {
            Some(bar) => {
                bar.set_position(done);
                bar.set_message(format!("{} in flight", in_flight));
            }
            None => eprintln!(
                "{}: {done} done, {in_flight} in flight, {targets_left} to go",
                self.name
            ),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
