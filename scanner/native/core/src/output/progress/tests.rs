//! Progress reports, with a clock that the tests set.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::limit::Span;
use super::{Limit, Now, Progress, line};

fn state(done: u64, limit: Limit) -> Now {
    Now {
        done,
        left: Some(100),
        in_flight: 7,
        limit,
    }
}

#[test]
fn each_limit_has_its_place_and_words() {
    let words: std::collections::BTreeSet<_> = Limit::ALL.map(Limit::words).into();
    assert_eq!(words.len(), Limit::ALL.len());
    for (place, limit) in Limit::ALL.into_iter().enumerate() {
        assert_eq!(limit as usize, place);
    }
}

#[test]
fn a_span_has_the_speed_and_the_limit_that_held_longest() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut span = Span::new(Duration::from_secs(1), start);
    // Targets probed by an earlier run.
    assert_eq!(span.note(at(0), &state(1000, Limit::Machine)), None);
    assert_eq!(span.note(at(300), &state(1010, Limit::Networks)), None);
    assert_eq!(span.note(at(999), &state(1040, Limit::Rate)), None);
    assert_eq!(
        span.note(at(1000), &state(1050, Limit::Machine)),
        Some((50.0, Limit::Rate))
    );
    // A new span starts. Earlier states do not count.
    assert_eq!(span.note(at(1200), &state(1050, Limit::Networks)), None);
    assert_eq!(
        span.note(at(3000), &state(1060, Limit::Paused)),
        Some((5.0, Limit::Paused))
    );
    assert_eq!(
        span.note(at(4000), &state(1060, Limit::Paused)),
        Some((0.0, Limit::Paused))
    );
}

#[test]
fn a_line_says_speed_rest_and_limit() {
    let cases = [
        (
            Some(100),
            50.0,
            "9 done, 50.0 a second, 7 in flight, 100 to go in 2 s, limit: rate",
        ),
        (
            Some(100),
            0.04,
            "9 done, 0.0 a second, 7 in flight, 100 to go, limit: rate",
        ),
        (
            Some(0),
            50.0,
            "9 done, 50.0 a second, 7 in flight, 0 to go, limit: rate",
        ),
        (
            None,
            50.0,
            "9 done, 50.0 a second, 7 in flight, limit: rate",
        ),
    ];
    for (left, per_s, text) in cases {
        let state = Now {
            left,
            ..state(9, Limit::Rate)
        };
        assert_eq!(line(&state, per_s, Limit::Rate), text);
    }
}

#[test]
fn the_file_is_replaced_as_a_whole() {
    let path = std::env::temp_dir().join(format!("progress-{}.json", std::process::id()));
    let start = Instant::now();
    let mut progress = Progress::begun("probe", Some(100), Some(&path), start);
    progress.tick_at(start, &state(8, Limit::Rate));
    let soon = start + super::FILE_PAUSE - Duration::from_nanos(1);
    progress.tick_at(soon, &state(8, Limit::Rate));
    assert!(!path.exists(), "too soon");
    progress.tick_at(start + super::FILE_PAUSE, &state(9, Limit::Input));
    let text = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let written: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let expected = json!({
        "done": 9, "left": 100, "in_flight": 7, "per_s": 2.0, "limit": "rate"
    });
    assert_eq!(written, expected);
    assert!(!path.with_added_extension("part").exists());
}
