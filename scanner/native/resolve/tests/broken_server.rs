//! Runs the program against servers that break the rules. Each behaviour of the test server leads to one
//! status.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(
    clippy::disallowed_types,
    reason = "a test starts servers and the program"
)]

use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// Returns the question without header and EDNS: the name, type and class.
fn question_of(query: &[u8]) -> &[u8] {
    let mut end = 12;
    while query[end] != 0 {
        end += 1 + usize::from(query[end]);
    }
    &query[12..end + 5]
}

/// Returns an answer: flags, counts, question, records.
fn message(query: &[u8], flags: u16, counts: [u16; 4], question: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut message = query[..2].to_vec();
    message.extend(flags.to_be_bytes());
    for count in counts {
        message.extend(count.to_be_bytes());
    }
    [&message, question, rest].concat()
}

const A: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc6\x12\0\x01";

/// Returns the server's answers to a query for `behaviour.test`: several datagrams or none.
fn answers(behaviour: &str, query: &[u8]) -> Vec<Vec<u8>> {
    let question = question_of(query);
    let good = message(query, 0x8180, [1, 1, 0, 0], question, A);
    let has_edns = query[11] == 1;
    match behaviour {
        "silent" => vec![],
        "good" => vec![good],
        "root" => vec![message(query, 0x8185, [1, 0, 0, 0], question, b"")],
        "wrong-id" => {
            let mut forged = good.clone();
            forged[0] ^= 0xff;
            vec![forged, good]
        }
        "wrong-question" => {
            let mut forged = good.clone();
            forged[13] ^= 1;
            vec![forged, good]
        }
        "query-back" => vec![query.to_vec(), good],
        "lower-case" => {
            let lower = question.to_ascii_lowercase();
            vec![message(query, 0x8180, [1, 1, 0, 0], &lower, A)]
        }
        "no-edns" if has_edns => vec![message(query, 0x8181, [1, 0, 0, 0], question, b"")],
        "bare-formerr" if has_edns => vec![message(query, 0x8181, [0, 0, 0, 0], b"", b"")],
        "badvers" if has_edns => {
            let opt = b"\0\0\x29\x04\xd0\x01\0\0\0\0\0";
            vec![message(query, 0x8180, [1, 0, 0, 1], question, opt)]
        }
        "no-edns" | "bare-formerr" | "badvers" => vec![good],
        "short" => vec![query[..7].to_vec()],
        "garbage" => vec![[&query[..2], &[0x81, 0x80], &[0xff; 40][..]].concat()],
        "loop-pointer" => {
            let record = b"\xc0\x23\0\x01\0\x01\0\0\0\x3c\0\x04\xc6\x12\0\x01";
            vec![message(query, 0x8180, [1, 1, 0, 0], question, record)]
        }
        "trailing" => vec![[&good[..], b"junk"].concat()],
        "many-counts" => vec![message(
            query,
            0x8180,
            [1, 0xffff, 0xffff, 0xffff],
            question,
            A,
        )],
        "truncated" => vec![message(query, 0x8380, [1, 0, 0, 0], question, b"")],
        "extended-error" => {
            let opt = b"\0\0\x29\x04\xd0\0\0\0\0\0\x0a\0\x0f\0\x06\0\x16late";
            vec![message(query, 0x8182, [1, 0, 0, 1], question, opt)]
        }
        other => panic!("{other}"),
    }
}

/// Starts a server that takes its behaviour from the first label of each name; returns the port.
fn serve() -> u16 {
    serve_by(|query| {
        let label = &query[13..13 + usize::from(query[12])];
        let label = String::from_utf8_lossy(label).to_lowercase();
        let behaviour = if query[12] == 0 { "root" } else { &label };
        answers(behaviour, query)
    })
}

/// Starts a server that answers each query with these datagrams; returns the port.
fn serve_by(answers: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut room = [0; 2048];
        while let Ok((length, client)) = socket.recv_from(&mut room) {
            for answer in answers(&room[..length]) {
                socket.send_to(&answer, client).unwrap();
            }
        }
    });
    port
}

/// Returns the rows for these names, read from a pipe, and the summary's text on standard error.
fn resolve(names: &[&str], more: &[&str]) -> (Vec<Value>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_firstflight-resolve"))
        .args(["--names", "-", "--types", "A", "--resolver"])
        .arg(format!("127.0.0.1:{}", serve()))
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = program.stdin.take().unwrap();
    for name in names {
        writeln!(stdin, "{name}.test").unwrap();
    }
    drop(stdin);
    let output = program.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    (
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        stderr,
    )
}

/// A timeout in seconds, long enough for any delay of the test's server thread.
const PATIENT: [&str; 2] = ["--timeout", "60"];

#[test]
fn each_behaviour_has_its_status() {
    let expected = [
        ("good", "NOERROR", 1, None),
        ("wrong-question", "NOERROR", 1, None),
        ("query-back", "NOERROR", 1, None),
        ("no-edns", "NOERROR", 1, None),
        ("bare-formerr", "NOERROR", 1, None),
        ("badvers", "NOERROR", 1, None),
        (
            "short",
            "MALFORMED",
            2,
            Some("the message is shorter than a header"),
        ),
        (
            "garbage",
            "MALFORMED",
            2,
            Some("the answer has more than one question"),
        ),
        (
            "loop-pointer",
            "MALFORMED",
            2,
            Some("a pointer in a name does not lead back"),
        ),
        ("trailing", "NOERROR", 1, Some("4 bytes follow the message")),
        ("many-counts", "MALFORMED", 2, None),
        // Nothing listens on TCP.
        ("truncated", "NETWORK", 2, Some("Connection refused")),
        ("extended-error", "SERVFAIL", 2, Some("EDE 22 (late)")),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
    let (rows, stderr) = resolve(&names, &[&PATIENT[..], &["--attempts", "2"]].concat());
    assert_eq!(rows.len(), expected.len(), "{stderr}");
    for (name, status, attempts, detail) in expected {
        let row = rows
            .iter()
            .find(|row| row["domain"] == format!("{name}.test"))
            .unwrap();
        let found = (&row["status"], &row["attempts"]);
        assert_eq!(found, (&status.into(), &attempts.into()), "{row}");
        if let Some(detail) = detail {
            assert_eq!(row["detail"], detail, "{row}");
        }
    }
    assert!(
        stderr.contains("0 messages belong to no open question, 2 answer another one"),
        "{stderr}"
    );
}

#[test]
fn a_server_without_edns_answers_in_one_attempt() {
    let names = ["no-edns", "bare-formerr", "badvers"];
    let (rows, stderr) = resolve(&names, &[&PATIENT[..], &["--attempts", "1"]].concat());
    assert_eq!(rows.len(), names.len(), "{stderr}");
    for row in rows {
        let found = (&row["status"], &row["attempts"]);
        assert_eq!(found, (&"NOERROR".into(), &1.into()), "{row}");
    }
}

#[test]
fn an_answer_with_an_id_of_no_question_is_ignored() {
    // There is only one question, so the forged id cannot match another question.
    let (rows, stderr) = resolve(&["wrong-id"], &PATIENT);
    assert_eq!(rows.len(), 1, "{stderr}");
    assert_eq!(
        (&rows[0]["status"], &rows[0]["attempts"]),
        (&"NOERROR".into(), &1.into())
    );
    assert!(
        stderr.contains("1 messages belong to no open question, 0 answer another one"),
        "{stderr}"
    );
}

#[test]
fn silence_is_a_timeout() {
    // The program first checks whether the resolver answers: three attempts at most.
    let (rows, stderr) = resolve(&["silent"], &["--attempts", "2", "--timeout", "3"]);
    assert_eq!(rows.len(), 1, "{stderr}");
    assert_eq!(
        (&rows[0]["status"], &rows[0]["attempts"]),
        (&"TIMEOUT".into(), &2.into())
    );
    assert!(rows[0]["duration_us"].as_i64().unwrap() >= 3_000_000);
}

#[test]
fn a_server_that_changes_the_case_is_asked_in_lower_case() {
    let path = summary_path();
    let more = ["--concurrency", "1", "--summary", path.to_str().unwrap()];
    let (rows, stderr) = resolve(&["lower-case"; 9], &[&PATIENT[..], &more].concat());
    assert_eq!(rows.len(), 9, "{stderr}");
    assert!(
        rows.iter()
            .all(|row| row["status"] == "NOERROR" && row["attempts"] == 1),
        "{rows:?}"
    );
    let resolver = &read_summary(&path)["resolvers"][0];
    assert_eq!(resolver["keeps_case"], false, "{resolver}");
    // One check, nine names, and three repeated questions.
    assert_eq!(resolver["asked"], 13, "{resolver}");
}

#[test]
fn a_silent_resolver_is_asked_less_and_its_questions_go_to_the_other() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (rows, asked) = with_another(200, &address, &["--timeout", "5", "--attempts", "10"]);
    let answered = rows.iter().filter(|row| row["status"] == "NOERROR").count();
    assert_eq!(answered, 200, "{asked:?}");
    // The silent resolver gets half of the questions until 32 questions to it have no answer. 32 is the limit
    // of questions in flight. Then it gets one in 17. Without halved shares, it would get about 100 questions
    // and the other 200.
    assert!(asked[1] >= 8 && asked[1] < asked[0] / 3, "{asked:?}");
}

#[test]
fn a_resolver_that_refuses_or_fails_everything_is_asked_less() {
    for rcode in [5, 2] {
        let port = serve_by(move |query| {
            let question = question_of(query);
            let flags = 0x8180 | rcode;
            vec![message(query, flags, [1, 0, 0, 0], question, b"")]
        });
        let address = format!("127.0.0.1:{port}");
        let (rows, asked) = with_another(
            400,
            &address,
            &[&PATIENT[..], &["--attempts", "1"]].concat(),
        );
        let failed = rows.iter().filter(|row| row["status"] != "NOERROR").count();
        // With its full share, it would get 200 questions.
        assert!((8..100).contains(&failed), "{rcode}: {failed}, {asked:?}");
        assert_eq!(failed as u64 + 1, asked[1], "with the check: {asked:?}");
    }
}

/// Resolves `names` names at the server and at the resolver `another`. Returns the rows, and the number of
/// questions to each of the two.
fn with_another(names: usize, another: &str, more: &[&str]) -> (Vec<Value>, [u64; 2]) {
    let path = summary_path();
    let of_two = [
        "--resolver",
        another,
        "--concurrency",
        "32",
        "--summary",
        path.to_str().unwrap(),
    ];
    let (rows, stderr) = resolve(&vec!["good"; names], &[&of_two[..], more].concat());
    assert_eq!(rows.len(), names, "{stderr}");
    let summary = read_summary(&path);
    let asked = |number: usize| summary["resolvers"][number]["asked"].as_u64().unwrap();
    (rows, [asked(0), asked(1)])
}

/// Returns a unique path for a summary.
fn summary_path() -> std::path::PathBuf {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("summary-{}-{run}.json", std::process::id());
    std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn read_summary(path: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
