//! From options to a run's parts, and whole runs to closed ports on loopback.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use firstflight_core::records::Segments;
use serde_json::Value;

use super::*;

fn options(arguments: &[&str]) -> Options {
    let start: &[&str] = &["firstflight-prober", "--targets", "list.csv"];
    Options::try_parse_from([start, arguments].concat()).unwrap()
}

/// An empty folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("setup-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Writes a file and returns the path as an argument.
    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn waits_are_converted_to_nanoseconds() {
    let arguments = [
        "--timeout",
        "1.5",
        "--settle-ms",
        "70",
        "--linger-ms",
        "400",
    ];
    let arguments = [&arguments[..], &["--attempts", "4", "--listen", "2.5"]].concat();
    let settings = settings(&options(&arguments), InitialSizes::default());
    assert_eq!(
        (settings.window, settings.settle, settings.cooldown),
        (1_500_000_000, 70_000_000, 400_000_000)
    );
    assert_eq!(
        (settings.attempts, settings.listen),
        (4, Some(2_500_000_000))
    );
}

#[test]
fn limits_are_those_of_the_options_on_the_clock_of_all() {
    let ip = "192.0.2.7".parse().unwrap();
    let turn = ["--per-prefix-rate", "2", "--turn", "0/2:10:1"];
    let ahead = [&turn[..], &["--clock-offset-ms", "10000"]].concat();
    let none = ["--per-address-rate", "0", "--per-prefix-rate", "0"];
    for (name, arguments, second) in [
        (
            "per address",
            &["--per-address-rate", "4"][..],
            Err(SECOND / 4),
        ),
        (
            "per prefix",
            &["--per-address-rate", "0", "--per-prefix-rate", "5"],
            Err(SECOND / 5),
        ),
        ("none", &none, Ok(())),
    ] {
        let mut limits = options(arguments).sending.rate_limits(0, 7, 0);
        assert_eq!(limits.take(ip, 0, false), Ok(()), "{name}");
        assert_eq!(limits.take(ip, 0, false), second, "{name}");
    }
    // The hash of the prefix decides which of the two turns it has. If the clock is wrong by one turn, it has the other
    // one.
    let start = 1_000 * SECOND as i64;
    let [now, corrected] = [&turn[..], &ahead].map(|arguments| {
        let mut limits = options(arguments).sending.rate_limits(start, 7, 0);
        limits.take(ip, 0, false).is_ok()
    });
    assert_ne!(now, corrected);
}

#[test]
fn json_lines_are_written_if_asked_for_or_without_segments() {
    for (arguments, json) in [
        (&[][..], true),
        (&["--segments", "x"], false),
        (&["--segments", "x", "--format", "jsonl"], true),
        (&["--format", "jsonl"], true),
    ] {
        let options = options(arguments);
        let outputs = options.output.options(None);
        assert_eq!(outputs.json, json, "{arguments:?}");
        assert_eq!(
            outputs.segments.is_some(),
            arguments.contains(&"x"),
            "{arguments:?}"
        );
    }
}

#[test]
fn options_about_lists_and_outputs_are_passed_on() {
    let arguments = [
        "--contact",
        "me",
        "--segments",
        "s",
        "--resume",
        "--summary",
        "m",
    ];
    let options = options(&arguments);
    let (inputs, outputs) = (
        options
            .sending
            .inputs("probe", options.targets.as_deref(), options.feed),
        options.output.options(options.skipped.as_deref()),
    );
    assert_eq!(
        (inputs.name, inputs.targets),
        ("probe", Some(Path::new("list.csv")))
    );
    assert!(inputs.contact && !inputs.feed && outputs.resume);
    assert_eq!(
        (outputs.summary, outputs.skipped),
        (Some(Path::new("m")), None)
    );
}

/// Runs with a list of two targets with closed ports, and `more_lines`, which may be rejected.
fn run_closed(folder: &Folder, more_lines: &str, more: &[&str]) -> Result<u8, Failure> {
    let rows = "127.86.0.1,a.test,9\n127.86.0.2,,9\n";
    let list = folder.file("list.csv", &format!("ip,domain,port\n{rows}{more_lines}"));
    let (segments, summary) = (folder.path("segments"), folder.path("summary.json"));
    let arguments = [
        "firstflight-prober",
        "--targets",
        &list,
        "--segments",
        &segments,
        "--summary",
        &summary,
        "--allow-net",
        "127.0.0.0/8",
        "--linger-ms",
        "1",
        "--rate",
        "1000",
    ];
    run(&Options::try_parse_from([&arguments[..], more].concat()).unwrap())
}

#[test]
fn a_dry_run_sends_and_writes_nothing() {
    let folder = Folder::new("dry");
    assert_eq!(run_closed(&folder, "", &["--dry-run"]), Ok(0));
    assert_eq!(run_closed(&folder, "nonsense\n", &["--dry-run"]), Ok(1));
    assert!(!Path::new(&folder.path("segments")).exists());
    assert!(!Path::new(&folder.path("summary.json")).exists());
}

#[test]
fn a_run_leaves_segments_and_a_summary_and_can_be_resumed() {
    let folder = Folder::new("run");
    let summary = || -> Value {
        serde_json::from_str(&fs::read_to_string(folder.path("summary.json")).unwrap()).unwrap()
    };
    assert_eq!(run_closed(&folder, "", &["--seed", "7"]), Ok(0));
    let first = summary();
    for (key, value) in [
        ("targets", 2),
        ("sent", 2),
        ("resumed", 0),
        ("seed", 7),
        ("closes", 0),
    ] {
        assert_eq!(first[key], value, "{key}");
    }
    assert_eq!(first["outcomes"]["refused"], 2);
    assert_eq!(first["missing_tx_stamps"], 0);
    assert_eq!(run_closed(&folder, "nonsense\n", &["--resume"]), Ok(1));
    let second = summary();
    for (key, value) in [("targets", 2), ("sent", 2), ("resumed", 2), ("rejected", 1)] {
        assert_eq!(second[key], value, "{key}");
    }
    assert_eq!(
        second["max_datagrams_per_second"], 0,
        "nothing was left to probe"
    );
    let refused = run_closed(&folder, "", &[]);
    assert!(
        matches!(refused, Err(Failure::Usage(_))),
        "segments without --resume"
    );
    let dir = folder.path("segments");
    let segments = Segments::<Columns>::open(Path::new(&dir), true).unwrap();
    assert!(segments.last() >= 1);
}

#[test]
fn what_does_not_fit_the_list_is_refused() {
    for (arguments, targets, expected) in [
        (&["--initial-size", "1200,1300"][..], 10, None),
        (
            &["--initial-size", "1200,1300", "--segments", "s"],
            10,
            Some("probe.initial_sizes"),
        ),
        (&["--initial-size", "1200", "--segments", "s"], 10, None),
        (&["--listen", "5"], 1000, None),
        (&["--listen", "5"], 1001, Some("but these are 1001")),
        (
            &["--listen", "5", "--initial-size", "1200,1300"],
            501,
            Some("but these are 1002"),
        ),
        (&[], usize::MAX, None),
    ] {
        let options = options(arguments);
        let found = check(&options, &options.sizes(), targets).err();
        let sentence = found.as_ref().map(ToString::to_string);
        assert_eq!(
            found.map(|failure| failure.exit_status()),
            expected.map(|_| 2)
        );
        assert!(
            sentence
                .unwrap_or_default()
                .contains(expected.unwrap_or_default())
        );
    }
}
