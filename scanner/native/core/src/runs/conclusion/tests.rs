use super::*;
use crate::output::records::outcome::tests::Word;

#[derive(Default, Serialize)]
struct Counts {
    #[serde(flatten)]
    tally: Tally<Word>,
    missing: (u64, u64),
}

impl Counted for Counts {
    type Outcome = Word;

    fn tally(&self) -> &Tally<Word> {
        &self.tally
    }

    fn missing_stamps(&self) -> (u64, u64) {
        self.missing
    }
}

#[derive(Serialize)]
struct Summary(Common<Counts>);

impl RunSummary for Summary {
    type Counts = Counts;

    fn common(&mut self) -> &mut Common<Counts> {
        &mut self.0
    }
}

/// A summary for a run with three targets and two records, without ports.
fn common() -> Common<Counts> {
    common_with(&Ports::bind(&[], None, [false, false], 0).unwrap())
}

fn common_with(ports: &Ports) -> Common<Counts> {
    let sending = SendingArguments {
        source: vec!["127.77.1.1".parse().unwrap()],
        contact: Some("research@example.org".to_owned()),
        ..SendingArguments::default()
    };
    let list = Path::new("list.csv");
    let mut common = Common::new(("engine", "1.2"), Some(list), 2345.0, &sending, ports, 99);
    common.duration_s = 1.26;
    common.counts = counts();
    common
}

fn counts() -> Counts {
    let mut counts = Counts::default();
    counts.tally.targets = 3;
    counts.tally.record(Word::SendFailed, false);
    counts.tally.record(Word::Answered, true);
    counts
}

#[test]
fn settings_in_force_are_those_of_the_options() {
    let source = "127.77.1.1".parse().unwrap();
    let ports = Ports::bind(&[source], Some((4000, 4002)), [true, false], 0).unwrap();
    let json = serde_json::to_value(common_with(&ports)).unwrap();
    for (key, value) in [
        ("tool", serde_json::json!("engine")),
        ("tool_version", "1.2".into()),
        ("targets_file", "list.csv".into()),
        ("interrupted", false.into()),
        ("rate", 2345.0.into()),
        ("batch", 23.into()),
        ("contact", "research@example.org".into()),
        ("sources", vec!["127.77.1.1"].into()),
        ("source_ports", vec![4000, 4001, 4002].into()),
        ("seed", 99.into()),
        ("last_segment", serde_json::Value::Null),
        ("targets", 3.into()),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
}

#[test]
fn a_run_without_anything_special_is_one_line() {
    assert_eq!(
        common().lines(),
        ["2 of 3 targets in 1.3 s: answered 1, send_failed 1"]
    );
    let mut nothing = common();
    nothing.counts = Counts::default();
    assert_eq!(nothing.lines(), ["0 of 0 targets in 1.3 s: no records"]);
}

#[test]
fn each_circumstance_has_its_line() {
    type Change = fn(&mut Common<Counts>);
    let cases: [(&str, Change, &str); 4] = [
        (
            "rejected",
            |common| common.counts.tally.rejected = 1,
            "1 lines of list.csv were rejected",
        ),
        (
            "no transmit stamp",
            |common| common.counts.missing.0 = 1,
            "warning: 1 records have no times, because the kernel gave no transmit stamp for their \
             Initial; the network driver may not support software time stamps",
        ),
        (
            "no receive stamp",
            |common| common.counts.missing.1 = 1,
            "warning: 1 datagrams without a receive stamp were dropped",
        ),
        (
            "interrupted",
            |common| (common.interrupted, common.counts.tally.not_done) = (true, 1),
            "interrupted; 1 targets have no record",
        ),
    ];
    for (name, change, line) in cases {
        let mut common = common();
        change(&mut common);
        assert_eq!(common.lines()[1..], [line], "{name}");
    }
}

#[test]
fn the_exit_status_says_how_it_ended() {
    let folder = std::env::temp_dir().join(format!("conclusion-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let output = OutputArguments {
        summary: Some(folder.join("summary.json")),
        segments: Some(folder.clone()),
        ..OutputArguments::default()
    };
    type Change = fn(&mut RunResult<Counts>);
    let cases: [(&str, Change, Option<u8>); 5] = [
        ("done", |result| result.counts.tally.not_done = 1, Some(0)),
        (
            "rejected lines",
            |result| (result.counts.tally.not_done, result.counts.tally.rejected) = (1, 4),
            Some(1),
        ),
        (
            "interrupted",
            |result| (result.counts.tally.not_done, result.interrupted) = (1, true),
            Some(130),
        ),
        ("a target without record", |_| (), None),
        (
            "records that cannot be written",
            |result| result.written = Err(Failure::Output("full".into())),
            None,
        ),
    ];
    for (name, change, status) in cases {
        let mut result = RunResult {
            counts: counts(),
            highest: (7, 8),
            lists: Followed {
                lists_read_again: 3,
                unconfirmed_s: Some(1.5),
            },
            interrupted: false,
            written: Ok(5),
        };
        change(&mut result);
        let concluded = conclude("engine", &output, Summary(common()), 2.5, result);
        assert_eq!(concluded.ok(), status, "{name}");
        let text = std::fs::read_to_string(folder.join("summary.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["max_datagrams_per_second"], 8, "{name}");
        assert_eq!(json["duration_s"], 2.5, "{name}");
        assert_eq!(json["lists_read_again"], 3, "{name}");
        assert_eq!(json["unconfirmed_s"], 1.5, "{name}");
        if status.is_some() {
            assert_eq!(json["last_segment"], 5, "{name}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
