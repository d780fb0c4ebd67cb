//! Planned probes are due, wait or are skipped. The tests set the time.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::clock::{Clock, SECOND};
use crate::input::targets::TargetList;
use crate::limits::policy::{Namespace, Policy};
use crate::limits::rate_limit::RateLimits;
use crate::sockets::egress::Ports;

/// UTC when the monotonic clock was 0.
const START: Stamp = 1_795_154_400_000_000_000;
const READY: Conditions = Conditions {
    stopping: false,
    room: true,
};

struct Run {
    schedule: Schedule,
    egress: Egress<()>,
    backlog: Backlog,
    skips: PathBuf,
}

impl Run {
    /// A run that has read `lines`. `rates`: limits per address and prefix.
    fn new(name: &str, lines: String, contact: bool, rates: (f64, f64)) -> Run {
        let skips = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let feed = Feed::of(move || Cursor::new(lines)).unwrap();
        let file = Skips::open(Some(&skips)).unwrap();
        let allow = ["127.0.0.0/8", "::1/128", "10.0.0.0/8"].map(str::to_owned);
        let blocked = [("list".to_owned(), "127.0.0.66\n".to_owned())];
        let policy = Policy::new(&allow, &blocked, &[], Namespace::here(&[]).unwrap()).unwrap();
        let source = ["127.83.0.1".parse().unwrap()];
        let ports = Ports::bind(&source, None, [true, false], 7).unwrap();
        let limits = RateLimits::new(rates.0, rates.1, None, 0);
        let mut run = Run {
            schedule: Schedule::new(Some(feed), file, START, contact),
            egress: Egress::new(policy, ports, (1000.0, 2), Clock::start()),
            backlog: Backlog::new(Arc::new(TargetList::default()), limits),
            skips,
        };
        while run.schedule.feed.is_some() {
            run.read();
            std::thread::yield_now();
        }
        run
    }

    fn read(&mut self) -> bool {
        self.schedule.read(self.backlog.groups_mut())
    }

    fn next(&mut self, now: Mono, conditions: Conditions) -> Option<Due> {
        self.schedule
            .next(now, conditions, &mut self.egress, &mut self.backlog)
    }

    /// Returns the content of the file of skipped probes, and removes it.
    fn skipped(self) -> String {
        let text = std::fs::read_to_string(&self.skips).unwrap();
        std::fs::remove_file(&self.skips).unwrap();
        text
    }
}

/// A command: planned probe number 0 of `ip` at `at` ns after the start, at most 5 ms later.
fn slot(at: Stamp, group: u32, ip: &str) -> String {
    format!("slot 2147483648 {} 5 0 {group} {ip} 443\nend\n", START + at)
}

#[test]
fn each_condition_decides_about_a_probe_that_is_due() {
    let full = Conditions {
        room: false,
        ..READY
    };
    let stopping = Conditions {
        stopping: true,
        ..READY
    };
    let at = 2 * SECOND as Stamp;
    for (name, line, contact, now, conditions, expected) in [
        (
            "too early",
            slot(at, 0, "127.0.0.1"),
            true,
            2 * SECOND - 1,
            READY,
            "later",
        ),
        (
            "in time",
            slot(at, 0, "127.0.0.1"),
            true,
            2 * SECOND,
            READY,
            "connect",
        ),
        (
            "at its end",
            slot(at, 0, "127.0.0.1"),
            true,
            2_005_000_000,
            READY,
            "connect",
        ),
        (
            "late",
            slot(at, 0, "127.0.0.1"),
            true,
            2_005_000_001,
            READY,
            "late 5000",
        ),
        (
            "stopping",
            slot(at, 0, "127.0.0.1"),
            true,
            2 * SECOND,
            stopping,
            "stopped 0",
        ),
        (
            "paused",
            slot(at, 7, "127.0.0.1"),
            true,
            2_000_001_000,
            READY,
            "paused 1",
        ),
        (
            "another group",
            slot(at, 8, "127.0.0.1"),
            true,
            2 * SECOND,
            READY,
            "connect",
        ),
        (
            "no contact needed",
            slot(at, 0, "127.0.0.1"),
            false,
            2 * SECOND,
            READY,
            "connect",
        ),
        (
            "no contact",
            slot(at, 0, "192.88.99.1"),
            false,
            2 * SECOND,
            READY,
            "contact 0",
        ),
        (
            "blocked",
            slot(at, 0, "127.0.0.66"),
            true,
            2 * SECOND,
            READY,
            "blocked",
        ),
        (
            "no family",
            slot(at, 0, "::1"),
            true,
            2 * SECOND,
            READY,
            "no family",
        ),
        (
            "no room",
            slot(at, 0, "127.0.0.1"),
            true,
            2 * SECOND,
            full,
            "later",
        ),
    ] {
        let mut run = Run::new("schedule", line, contact, (0.0, 0.0));
        run.backlog.groups_mut().pause(7);
        let due = match run.next(now, conditions) {
            None => "",
            Some(Due::Connect(_)) => "connect",
            Some(Due::Blocked(..)) => "blocked",
            Some(Due::NoFamily(_)) => "no family",
        };
        let waits = run.schedule.next_at().is_some();
        assert_eq!(waits, expected == "later", "{name}");
        assert_eq!(run.schedule.is_finished(), !waits, "{name}");
        let counted = run.schedule.skipped();
        let skipped = run.skipped();
        assert_eq!(counted, skipped.lines().count() as u64, "{name}");
        if let Some((reason, late)) = expected.split_once(' ').filter(|_| expected != "no family") {
            let line = format!("\"reason\": \"{reason}\", \"late_us\": {late}}}\n");
            assert!(skipped.ends_with(&line), "{name}: {skipped}");
        } else {
            let expected = if waits { "" } else { expected };
            assert_eq!((due, &skipped[..]), (expected, ""), "{name}");
        }
    }
}

#[test]
fn a_probe_that_the_run_has_no_room_for_is_busy() {
    let line = slot(0, 0, "127.0.0.1");
    let mut run = Run::new("busy", line, true, (0.0, 0.0));
    let full = Conditions {
        room: false,
        ..READY
    };
    assert!(run.next(1000, full).is_none());
    let again = run.schedule.next_at().unwrap();
    assert!(again >= 1000 + BUSY_WAIT, "{again}");
    assert!(run.next(again.max(5_000_001), full).is_none());
    assert!(run.skipped().contains("\"busy\""));
}

#[test]
fn a_probe_waits_for_the_limit_of_its_address_if_its_time_allows() {
    let (at, now) = (START + 2 * SECOND as Stamp, 2 * SECOND);
    for (rate, skipped) in [(300.0, false), (100.0, true)] {
        let slot = |number: u32| format!("slot {number} {at} 5 0 0 127.0.0.1 443\n");
        let lines = slot(1 << 31) + &slot((1 << 31) + 1) + "end\n";
        let mut run = Run::new("limit", lines, true, (rate, 0.0));
        assert!(matches!(run.next(now, READY), Some(Due::Connect(_))));
        assert!(run.next(now, READY).is_none());
        let free_at = run.schedule.next_at();
        assert_eq!(free_at, (!skipped).then_some(now + SECOND / 300), "{rate}");
        if let Some(free_at) = free_at {
            assert!(matches!(run.next(free_at, READY), Some(Due::Connect(_))));
        }
        assert_eq!(run.skipped().contains("limit"), skipped, "{rate}");
    }
}

#[test]
fn commands_change_groups_and_the_end_is_told_from_a_break() {
    for (name, lines, stop, complete) in [
        (
            "end",
            "hold 7\nrefuse 8\nhold 9\nfree 9\nend\n",
            false,
            true,
        ),
        ("break", "hold 7\nrefuse 8\n", true, true),
        (
            "broken line",
            "hold 7\nrefuse 8\nnonsense\nhold 9\n",
            true,
            false,
        ),
    ] {
        let mut run = Run::new("commands", "end\n".to_owned(), true, (0.0, 0.0));
        let lines = lines.to_owned();
        run.schedule.feed = Some(Feed::of(move || Cursor::new(lines)).unwrap());
        run.schedule.complete = false;
        let mut stopped = false;
        while run.schedule.feed.is_some() {
            stopped |= run.read();
            std::thread::yield_now();
        }
        assert_eq!(
            (stopped, run.schedule.is_finished()),
            (stop, complete),
            "{name}"
        );
        assert_eq!(run.schedule.broken().is_some(), !complete, "{name}");
        let standings = [7, 8, 9].map(|group| run.backlog.groups().standing(group));
        // After `end`, nobody can free the group.
        let held = if stop {
            Standing::Paused
        } else {
            Standing::Refused
        };
        assert_eq!(
            standings,
            [held, Standing::Refused, Standing::Free],
            "{name}"
        );
        assert!(!run.read(), "there is nothing to read any more");
        run.skipped();
    }
}

#[test]
fn all_that_is_left_is_skipped_at_the_end() {
    let lines: String = (0..3)
        .map(|i| {
            format!(
                "slot {} {} 5 0 0 127.0.0.1 443\n",
                2_147_483_648_u32 + i,
                START + 9
            )
        })
        .collect();
    let mut run = Run::new("end", lines + "end\n", true, (0.0, 0.0));
    run.schedule.skip_all(2009);
    assert_eq!(
        (run.schedule.skipped(), run.schedule.is_finished()),
        (3, true)
    );
    assert_eq!(run.schedule.write_failure(), None);
    let skipped = run.skipped();
    assert_eq!(
        skipped.matches("\"stopped\", \"late_us\": 2}").count(),
        3,
        "{skipped}"
    );
}
