//! When the clock and not an answer ends a sleep: where the rates limit, several questions leave and several
//! answers are read in one pass (docs/design/0016). Times of arrival are the kernel's.

use firstflight_core::clock::{Mono, SECOND};

/// Longest pause between two passes.
const GAP: Mono = 4_000_000;

/// Most questions of a resolver in a pause: so many answers are far less than what a socket's buffer holds.
const MOST: f64 = 32.0;

/// With the next question further away, what comes ends the sleep: there is little to gather.
const FAR: Mono = 20_000_000;

/// What is known of a resolver.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// Questions per second; `None`: no limit.
    pub rate: Option<f64>,
    /// Questions that wait to be sent.
    pub count: usize,
    /// When the next one may leave.
    pub next_at: Mono,
}

/// Returns when the next pass is to begin if answers should wait for it. `None`: what comes ends the sleep,
/// since something else than the rates may limit. The rates do if every resolver has one, and more waits
/// than leaves in two pauses, so that no name has to end first.
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
