//! Tests the second engine (examples/echo_ping) against echo servers. The core provides the limits, lists,
//! segments, resume and an orderly stop on a signal.
//!
//! The engine's own rules permit only 127.0.0.0/8 (see a test below), so that it runs in any namespace.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_ipc::reader::FileReader;

/// A folder for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let unique = format!("firstflight-echo-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn segments(&self) -> PathBuf {
        self.0.join("segments")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Answers every datagram to `address` (port 0: any) with the payload. Passes on the line number in the
/// payload.
fn echo_server(address: &str) -> (SocketAddr, Receiver<u32>) {
    let socket = UdpSocket::bind(address).unwrap();
    let local = socket.local_addr().unwrap();
    let (to, from) = channel();
    // The thread stops with the test's process.
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((length, peer)) = socket.recv_from(&mut bytes) {
            let line = u32::from_be_bytes(*bytes.first_chunk().unwrap());
            if to.send(line).is_err() || socket.send_to(&bytes[..length], peer).is_err() {
                break;
            }
        }
    });
    (local, from)
}

/// Returns the line numbers of all datagrams received since the last call.
fn lines(from: &Receiver<u32>) -> Vec<u32> {
    from.try_iter().collect()
}

/// A timeout (ms) that does not expire even if this test stalls.
const PATIENT: &str = "60000";

/// Starts the engine on a list of `targets` (IP, name, port), which waits for echoes.
fn engine(
    folder: &Folder,
    targets: &[(&str, &str, u16)],
    rate: &str,
    more: &[&dyn AsRef<Path>],
) -> Child {
    let mut text = "ip,domain,port\n".to_owned();
    for (ip, domain, port) in targets {
        text += &format!("{ip},{domain},{port}\n");
    }
    engine_on(folder, &text, rate, PATIENT, more)
}

/// Starts the engine on a list, with a timeout in milliseconds.
fn engine_on(
    folder: &Folder,
    list: &str,
    rate: &str,
    timeout_ms: &str,
    more: &[&dyn AsRef<Path>],
) -> Child {
    let program = std::env::current_exe().unwrap();
    let program = program.with_file_name("../examples/echo_ping");
    assert!(
        program.exists(),
        "{} is missing: `cargo test -p firstflight-core` builds it, `--test echo_ping` alone does not",
        program.display()
    );
    let mut command = Command::new(program);
    command
        .arg("--targets")
        .arg(folder.write("targets.csv", list));
    command.arg("--segments").arg(folder.segments());
    command.args(["--rate", rate, "--timeout-ms", timeout_ms]);
    for argument in more {
        command.arg(argument.as_ref());
    }
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn finish(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (
        status.code(),
        String::from_utf8_lossy(&stderr).trim().to_owned(),
    )
}

/// All closed segments.
fn batches(folder: &Folder) -> Vec<RecordBatch> {
    let Ok(entries) = fs::read_dir(folder.segments()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        assert_eq!(path.extension().unwrap(), "arrow", "{}", path.display());
        let reader = FileReader::try_new(fs::File::open(&path).unwrap(), None).unwrap();
        found.extend(reader.map(Result::unwrap));
    }
    found
}

/// Rows of all segments: line of the target to outcome and round trip.
fn rows(folder: &Folder) -> BTreeMap<u32, (String, Option<i64>)> {
    let mut rows = BTreeMap::new();
    for batch in batches(folder) {
        let column = |name| batch.column_by_name(name).unwrap();
        assert!(batch.column_by_name("asn").is_none(), "no list has it");
        let targets = column("target").as_primitive::<UInt32Type>();
        let outcomes = column("outcome").as_string::<i32>();
        let times = column("round_trip_us").as_primitive::<Int64Type>();
        for (row, (target, time)) in targets.values().iter().zip(times).enumerate() {
            let before = rows.insert(*target, (outcomes.value(row).to_owned(), time));
            assert!(before.is_none(), "line {target} has two rows");
        }
    }
    rows
}

fn outcomes(folder: &Folder) -> Vec<(u32, String)> {
    let rows = rows(folder).into_iter();
    rows.map(|(line, (outcome, _))| (line, outcome)).collect()
}

/// Counts in a summary: targets, sent, rejected.
fn counts(summary: &Path) -> (u64, u64, u64) {
    let text = fs::read_to_string(summary).unwrap();
    let counts: serde_json::Value = serde_json::from_str(&text).unwrap();
    let count = |name: &str| counts[name].as_u64().unwrap();
    (count("targets"), count("sent"), count("rejected"))
}

#[test]
fn echoes_become_rows_with_times() {
    let folder = Folder::new("rows");
    let (server, came) = echo_server("127.0.11.1:0");
    let targets = [
        ("127.0.11.1", "a.test", server.port()),
        ("nonsense", "c.test", 7),
    ];
    let summary = folder.0.join("summary.json");
    let more: [&dyn AsRef<Path>; 2] = [&"--summary", &summary];
    let (status, stderr) = finish(engine(&folder, &targets, "100", &more));
    assert_eq!(status, Some(0), "{stderr}");
    let rows = rows(&folder);
    let answered = &rows[&2];
    assert_eq!((answered.0.as_str(), rows.len()), ("answered", 1));
    assert!(answered.1.is_some_and(|us| us >= 0), "{answered:?}");
    assert_eq!(lines(&came), [2]);
    assert_eq!(counts(&summary), (1, 1, 1));
}

#[test]
fn silence_is_a_row_too() {
    let folder = Folder::new("silence");
    let silent = UdpSocket::bind("127.0.11.2:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let list = format!("ip,domain,port\n127.0.11.2,b.test,{port}\n");
    let summary = folder.0.join("summary.json");
    let more: [&dyn AsRef<Path>; 2] = [&"--summary", &summary];
    let (status, stderr) = finish(engine_on(&folder, &list, "100", "300", &more));
    assert_eq!(status, Some(0), "{stderr}");
    assert_eq!(
        rows(&folder),
        BTreeMap::from([(2, ("timeout".to_owned(), None))])
    );
    assert_eq!(counts(&summary), (1, 1, 0));
}

#[test]
fn segments_return_the_as_that_the_list_gave() {
    let folder = Folder::new("asn");
    let (server, _came) = echo_server("127.0.15.1:0");
    let port = server.port();
    let list = format!("ip,domain,port,asn\n127.0.15.1,a,{port},64500\n127.0.15.1,b,{port},\n");
    let (status, stderr) = finish(engine_on(&folder, &list, "100", PATIENT, &[]));
    assert_eq!(status, Some(0), "{stderr}");
    let mut read = BTreeMap::new();
    for batch in batches(&folder) {
        let column = |name| batch.column_by_name(name).unwrap();
        let asns = column("asn").as_primitive::<UInt32Type>();
        let targets = column("target").as_primitive::<UInt32Type>();
        read.extend(targets.values().iter().copied().zip(asns.iter()));
    }
    assert_eq!(read, BTreeMap::from([(2, Some(64500)), (3, None)]));
}

#[test]
fn blocked_and_opted_out_targets_are_rows_and_get_no_datagram() {
    let folder = Folder::new("lists");
    let (server, came) = echo_server("127.0.12.1:0");
    let (blocked, to_blocked) = echo_server(&format!("127.0.12.2:{}", server.port()));
    let port = server.port();
    let targets = [
        ("127.0.12.1", "a.test", port),
        ("127.0.12.2", "b.test", blocked.port()),
        ("127.0.12.1", "www.out.test", port),
    ];
    let blocklist = folder.write("blocklist.txt", "127.0.12.2 # its owner asked\n");
    let optout = folder.write("optout.txt", "out.test\n");
    let more: [&dyn AsRef<Path>; 4] = [&"--blocklist", &blocklist, &"--optout", &optout];
    let (status, stderr) = finish(engine(&folder, &targets, "100", &more));
    assert_eq!(status, Some(0), "{stderr}");
    let words = outcomes(&folder);
    let words: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
    assert_eq!(words, ["answered", "blocked", "blocked"]);
    assert_eq!((lines(&came), lines(&to_blocked)), (vec![2], vec![]));
}

#[test]
fn nothing_outside_this_machine_can_be_contacted() {
    for ip in ["192.0.2.1", "198.18.0.1", "10.0.0.1", "::1"] {
        let folder = Folder::new("outside");
        let (status, stderr) = finish(engine(&folder, &[(ip, "a.test", 9)], "100", &[]));
        assert_eq!(status, Some(2), "{ip}: {stderr}");
        assert!(stderr.contains("nothing was sent"), "{ip}: {stderr}");
    }
}

#[test]
fn limits_of_the_run_the_address_and_the_prefix_are_kept() {
    let (server, _came) = echo_server("127.0.13.1:0");
    let same = [("127.0.13.1", "a.test", server.port()); 5];
    // The limits are lower bounds for the length of the run, however busy the machine is.
    for (rate, limit) in [
        ("10", None),
        ("1000", Some("--per-address-rate")),
        ("1000", Some("--per-prefix-rate")),
    ] {
        let folder = Folder::new("limits");
        let begin = Instant::now();
        let child = match &limit {
            Some(limit) => engine(&folder, &same, rate, &[limit, &"10"]),
            None => engine(&folder, &same, rate, &[]),
        };
        let (status, stderr) = finish(child);
        assert_eq!(status, Some(0), "{stderr}");
        assert_eq!(rows(&folder).len(), same.len());
        assert!(
            begin.elapsed() >= Duration::from_millis(390),
            "{limit:?}: five probes at ten per second in {:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn a_signal_ends_the_run_in_order_and_resume_probes_the_rest_once() {
    let folder = Folder::new("resume");
    let (server, came) = echo_server("127.0.14.1:0");
    let targets = [("127.0.14.1", "a.test", server.port()); 200];
    // All targets take 100 s: no stall of this test lets the run finish.
    let child = engine(&folder, &targets, "2", &[]);
    let mut probed: Vec<u32> = Vec::new();
    while probed.len() < 5 {
        probed.push(came.recv_timeout(Duration::from_secs(120)).unwrap());
    }
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(killed.success());
    let (status, stderr) = finish(child);
    assert_eq!(status, Some(130), "{stderr}");
    probed.extend(lines(&came));
    let first: BTreeSet<u32> = rows(&folder).into_keys().collect();
    assert!(first.len() < targets.len(), "it ended early");
    assert_eq!(first, probed.iter().copied().collect(), "sent means a row");

    let (status, stderr) = finish(engine(&folder, &targets, "1000", &[]));
    assert_eq!(status, Some(2), "segments are never overwritten: {stderr}");
    let (status, stderr) = finish(engine(&folder, &targets, "1000", &[&"--resume"]));
    assert_eq!(status, Some(0), "{stderr}");
    probed.extend(lines(&came));
    probed.sort_unstable();
    let all: Vec<u32> = (2..202).collect();
    assert_eq!(probed, all, "each target exactly once");
    let rows: Vec<u32> = rows(&folder).into_keys().collect();
    assert_eq!(rows, all);
}

#[test]
fn an_engine_waits_for_an_earlier_one_on_its_folder() {
    let folder = Folder::new("lock");
    let server = UdpSocket::bind("127.0.16.1:0").unwrap();
    let targets = [("127.0.16.1", "a.test", server.local_addr().unwrap().port())];
    let mut bytes = [0; 64];
    server
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let first = engine(&folder, &targets, "100", &[]);
    let (length, peer) = server.recv_from(&mut bytes).unwrap();

    let mut second = engine(&folder, &targets, "100", &[&"--resume"]);
    let mut line = String::new();
    let mut messages = BufReader::new(second.stderr.take().unwrap());
    messages.read_line(&mut line).unwrap();
    assert!(line.contains("waiting until it exits"), "{line:?}");

    server.send_to(&bytes[..length], peer).unwrap();
    let (status, stderr) = finish(first);
    assert_eq!(status, Some(0), "{stderr}");
    assert_eq!(second.wait().unwrap().code(), Some(0));
    assert_eq!(outcomes(&folder), [(2, "answered".into())]);
    server.set_nonblocking(true).unwrap();
    assert!(
        server.recv_from(&mut bytes).is_err(),
        "the target was contacted twice"
    );
}
