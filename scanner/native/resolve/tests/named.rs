//! Runs the program against a BIND server on loopback: every type, every status, resuming, interruption.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(
    clippy::disallowed_types,
    reason = "a test starts servers and the program"
)]

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const ZONE: &str = "$TTL 60
@ IN SOA ns hostmaster 1 3600 600 86400 60
@ IN NS ns
@ IN MX 10 mail
@ IN TXT \"v=spf1 -all\" \"second part\"
@ IN CAA 0 issue \"ca.test\"
ns IN A 127.0.0.1
mail IN A 198.18.0.25
www 300 IN A 198.18.0.1
www 300 IN AAAA 2001:db8::1
www 300 IN HTTPS 1 . alpn=\"h3,h2\" port=8443 ipv4hint=198.18.0.1 ipv6hint=2001:db8::1 (
  ech=\"ABv+DQAXKgAgAAJrawAEAAEAAQAGYS50ZXN0AAA=\" )
alias 120 IN CNAME hop
hop 30 IN CNAME www
dangling IN CNAME nowhere
loop1 IN CNAME loop2
loop2 IN CNAME loop1
outside IN CNAME www.elsewhere.invalid.
nodata IN TXT \"none\"
";

/// Waits for an event; fails after a time that only a hang can exceed.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !happened() {
        assert!(Instant::now() < end, "not within 120 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a port of 127.0.0.1 that is free for TCP and for UDP.
fn free_port() -> u16 {
    for _ in 0..100 {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        if UdpSocket::bind(address).is_ok() {
            return address.port();
        }
    }
    panic!("no port is free for TCP and for UDP");
}

/// A server for `example.test`. It refuses other names, and fails for names in `broken.test`.
struct Named {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Named {
    /// Starts the server; tries another port if another program has taken the port.
    fn start(test: &str) -> Named {
        (0..5)
            .find_map(|_| Named::start_at(test, free_port()))
            .expect("each of five ports was taken")
    }

    /// Starts the server. Returns `None` if it does not listen because the port is taken.
    fn start_at(test: &str, port: u16) -> Option<Named> {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let many: String = (1..=90)
            .map(|n| format!("many 60 IN A 198.18.2.{n}\n"))
            .collect();
        let names: String = (0..600)
            .map(|n| format!("n{n} 60 IN A 198.18.3.{}\n", n % 250))
            .collect();
        fs::write(folder.join("example.test"), format!("{ZONE}{many}{names}")).unwrap();
        let at = folder.display();
        let config = format!(
            "options {{ directory \"{at}\"; managed-keys-directory \"{at}\"; pid-file none;
             session-keyfile none; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
             recursion no; allow-query {{ any; }}; notify no;
             rrset-order {{ order fixed; }}; dnssec-validation no; }};
             controls {{ }};
             zone \"example.test\" {{ type primary; file \"example.test\"; }};
             zone \"broken.test\" {{ type primary; file \"missing\"; }};"
        );
        fs::write(folder.join("named.conf"), config).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let program = ["/usr/sbin/named", "/usr/bin/named", "/usr/local/sbin/named"]
            .into_iter()
            .find(|path| Path::new(path).exists())
            .expect("the tests need BIND: apt-get install bind9");
        let process = Command::new(program)
            .args(["-g", "-n", "1", "-c"])
            .arg(folder.join("named.conf"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut named = Named {
            process,
            port,
            folder,
        };
        let mut log = String::new();
        until("named", || {
            assert!(named.process.try_wait().unwrap().is_none(), "named ended");
            log = fs::read_to_string(named.folder.join("log")).unwrap();
            log.trim_end().ends_with(" running")
        });
        // Without its UDP port, BIND ignores the interface. Without its TCP port, it continues.
        let is_taken = ["interface ignored", "address in use"].map(|text| log.contains(text));
        (is_taken == [false; 2]).then_some(named)
    }

    /// Returns a command that resolves these names.
    fn command(&self, names: &[&str], more: &[&str]) -> Command {
        let list = self.folder.join(format!("names-{}", names.len()));
        fs::write(&list, names.join("\n") + "\n").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstflight-resolve"));
        command
            .args(["--names", list.to_str().unwrap(), "--resolver"])
            .arg(format!("127.0.0.1:{}", self.port))
            .args(more);
        command
    }

    fn run(&self, names: &[&str], more: &[&str]) -> Output {
        self.command(names, more).output().unwrap()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn rows(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Maps (name, type) to the rows.
fn by_question(rows: &[Value]) -> HashMap<(String, String), Vec<&Value>> {
    let mut found: HashMap<_, Vec<&Value>> = HashMap::new();
    for row in rows {
        let key = |name: &str| row[name].as_str().unwrap().to_owned();
        found
            .entry((key("domain"), key("qtype")))
            .or_default()
            .push(row);
    }
    found
}

#[test]
fn every_status_and_every_type() {
    let named = Named::start("statuses");
    let names = [
        "www.example.test",
        "alias.example.test",
        "dangling.example.test",
        "loop1.example.test",
        "outside.example.test",
        "nodata.example.test",
        "nope.example.test",
        "many.example.test",
        "x.broken.test",
        "other.invalid",
        "example.test",
    ];
    let output = named.run(
        &names,
        &[
            "--types",
            "A,AAAA,HTTPS,CNAME,NS,MX,TXT,CAA",
            "--attempts",
            "2",
        ],
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let all = rows(&output);
    let found = by_question(&all);
    assert_eq!(found.len(), names.len() * 8);
    let of = |name: &str, qtype: &str| &found[&(name.to_owned(), qtype.to_owned())];
    for (name, qtype, status, rcode, count) in [
        ("www.example.test", "A", "NOERROR", 0, 1),
        ("alias.example.test", "AAAA", "NOERROR", 0, 1),
        ("dangling.example.test", "A", "NXDOMAIN", 3, 1),
        ("loop1.example.test", "A", "CHAIN", 0, 1),
        ("outside.example.test", "A", "REFUSED", 5, 1),
        ("nodata.example.test", "A", "NODATA", 0, 1),
        ("nope.example.test", "HTTPS", "NXDOMAIN", 3, 1),
        ("many.example.test", "A", "NOERROR", 0, 90),
        ("x.broken.test", "A", "SERVFAIL", 2, 1),
        ("other.invalid", "AAAA", "REFUSED", 5, 1),
        ("example.test", "MX", "NOERROR", 0, 1),
        ("loop1.example.test", "CNAME", "NOERROR", 0, 1),
    ] {
        let rows = of(name, qtype);
        assert_eq!(
            (rows.len(), &rows[0]["status"]),
            (count, &status.into()),
            "{name} {qtype}"
        );
        // BIND's answer to a loop depends on its version.
        assert!(
            status == "CHAIN" || rows[0]["rcode"] == rcode,
            "{name} {qtype}"
        );
    }
    let alias = of("alias.example.test", "A")[0];
    assert_eq!(
        alias["cname_chain"],
        serde_json::json!(["hop.example.test", "www.example.test"])
    );
    assert_eq!(
        (&alias["cname_ttls"], &alias["ttl"]),
        (&serde_json::json!([120, 30]), &300.into())
    );
    assert_eq!(of("many.example.test", "A")[0]["transport"], "tcp");
    assert_eq!(of("x.broken.test", "A")[0]["attempts"], 2);
    for (qtype, data) in [
        ("NS", "ns.example.test"),
        ("MX", "10 mail.example.test"),
        ("TXT", "\"v=spf1 -all\" \"second part\""),
        ("CAA", "0 issue \"ca.test\""),
    ] {
        assert_eq!(of("example.test", qtype)[0]["data"], data);
    }
    let https = of("www.example.test", "HTTPS")[0];
    assert_eq!(
        (&https["https_port"], &https["https_target"]),
        (&8443.into(), &".".into())
    );
    assert_eq!(https["https_alpn"], serde_json::json!(["h3", "h2"]));
    assert_eq!(https["https_ech_config_ids"], serde_json::json!([42]));
    assert_eq!(
        https["https_ech_public_names"],
        serde_json::json!(["a.test"])
    );
    assert!(
        all.iter()
            .all(|row| row["resolver"] == format!("127.0.0.1#{}", named.port))
    );
}

#[test]
fn a_run_that_is_stopped_goes_on() {
    for signal in ["INT", "TERM", "KILL"] {
        goes_on_after(signal);
    }
}

fn goes_on_after(signal: &str) {
    let named = Named::start(&format!("resume-{signal}"));
    let names: Vec<String> = (0..600).map(|n| format!("n{n}.example.test")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let segments = named.folder.join("segments");
    let segments = segments.to_str().unwrap();
    let summary = named.folder.join("summary.json");
    let options = [
        "--segments",
        segments,
        "--types",
        "A",
        "--summary",
        summary.to_str().unwrap(),
    ];
    let mut first = named
        .command(&names, &[&options[..], &["--rate", "20"]].concat())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let closed =
        |file: io::Result<fs::DirEntry>| file.unwrap().path().extension() == Some("arrow".as_ref());
    // All names together take half a minute, so no delay of this test lets the run finish.
    until("a segment", || {
        fs::read_dir(segments).is_ok_and(|mut found| found.any(closed))
    });
    let stop = Command::new("kill")
        .args([&format!("-{signal}"), &first.id().to_string()])
        .status()
        .unwrap();
    assert!(stop.success());
    let status = first.wait().unwrap();
    let read = || serde_json::from_str::<Value>(&fs::read_to_string(&summary).unwrap()).unwrap();
    let interrupted = (signal != "KILL").then(read);
    if let Some(before) = &interrupted {
        assert_eq!(status.code(), Some(130));
        let done = before["names"].as_u64().unwrap();
        assert!((1..600).contains(&done), "{before}");
        assert!(before["resolvers"][0]["max_per_second"].as_u64().unwrap() <= 22);
    } else {
        assert_eq!(status.signal(), Some(9));
        assert!(!summary.exists());
    }
    assert_eq!(
        named.run(&names, &options).status.code(),
        Some(2),
        "--resume has to be given"
    );
    let again = named.run(&names, &[&options[..], &["--resume"]].concat());
    assert_eq!(
        again.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
    let after = read();
    let done = after["resumed"].as_u64().unwrap();
    assert!((1..600).contains(&done), "{after}");
    assert!(interrupted.is_none_or(|before| before["names"] == done));
    assert_eq!(after["names"], 600 - done);
    assert_eq!(after["A_NOERROR"], 600 - done);
}

#[test]
fn a_resolver_that_is_down_is_named() {
    let mut named = Named::start("down");
    named.process.kill().unwrap();
    named.process.wait().unwrap();
    let output = named.run(&["www.example.test"], &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let expected = format!(
        "127.0.0.1, port {}, does not answer (Connection refused, 3 tries)",
        named.port
    );
    assert!(stderr.contains(&expected), "{stderr}");
}
