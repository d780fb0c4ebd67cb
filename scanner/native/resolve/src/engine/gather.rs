//! Decides when the loop sleeps for a fixed time instead of waking at each answer. Where the rates are the
//! limit, one pass then sends several questions and reads several answers (docs/design/0016). The kernel
//! supplies the arrival times.

use firstflight_core::clock::{Mono, SECOND};

/// Longest pause between two passes.
const GAP: Mono = 4_000_000;

/// Maximum number of questions to one resolver per pause. A socket's buffer holds far more answers than this.
const MOST: f64 = 32.0;

/// If the next question is due later than this, the loop wakes at each answer, because there is little to
/// gather.
const FAR: Mono = 20_000_000;

/// The state of a resolver's queue.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// Questions per second; `None`: no limit.
    pub rate: Option<f64>,
    /// Number of questions that wait to be sent.
    pub count: usize,
    /// Earliest time of the next question.
    pub next_at: Mono,
}

/// Returns the start of the next pass if the loop should gather answers until then. `None`: wake at the next
/// answer, because something other than the rates may be the limit. The rates are the limit if every resolver
/// has one and its queue holds more questions than two pauses can send. Then no question waits for another
/// name to finish.
pub fn until(now: Mono, resolvers: impl Iterator<Item = Waiting>) -> Option<Mono> {
    let (mut gap, mut next_at) = (GAP, Mono::MAX);
    for resolver in resolvers {
        let rate = resolver.rate?;
        let pause = GAP.min((MOST / rate * SECOND as f64) as Mono);
        let leaves = rate * pause as f64 / SECOND as f64;
        if (resolver.count as f64) <= 2.0 * leaves {
            return None;
        }
        gap = gap.min(pause);
        next_at = next_at.min(resolver.next_at);
    }
    (next_at <= now.saturating_add(FAR)).then(|| next_at.max(now + gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Mono = 1_000_000;

    #[test]
    fn the_clock_ends_the_sleep_where_the_rates_limit() {
        let of = |rate: f64, count, ms: Mono| Waiting {
            rate: Some(rate),
            count,
            next_at: ms * MS,
        };
        let free = Waiting {
            rate: None,
            count: 200,
            next_at: 0,
        };
        for (name, resolvers, expected) in [
            (
                "20 leave together",
                vec![of(5e3, 200, 1001)],
                Some(1004 * MS),
            ),
            (
                "at most 32",
                vec![of(2e4, 200, 1000)],
                Some(1001 * MS + 600_000),
            ),
            (
                "each at its time",
                vec![of(200.0, 200, 1005)],
                Some(1005 * MS),
            ),
            (
                "few wait: concurrency may limit",
                vec![of(5e3, 40, 1001)],
                None,
            ),
            ("none waits", vec![of(5e3, 0, 1001)], None),
            ("one question", vec![of(100.0, 0, 1001)], None),
            ("no limit", vec![free], None),
            ("the next is far away", vec![of(1.0, 200, 1500)], None),
            (
                "the faster of two",
                vec![of(2e4, 200, 1001), of(1e3, 200, 1001)],
                Some(1001 * MS + 600_000),
            ),
            ("one without a limit", vec![of(5e3, 200, 1001), free], None),
            ("no resolver", vec![], None),
        ] {
            assert_eq!(until(1000 * MS, resolvers.into_iter()), expected, "{name}");
        }
    }
}
