//! Only the core owns sockets that send: engines cannot send past it, and in the core only the listed calls
//! send.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that an engine may use. They cannot open a socket.
const DEPENDENCIES: [&str; 24] = [
    "arrow-array",
    "arrow-schema",
    "aws-lc-rs",
    "bytes",
    "clap",
    "firstflight-certificates",
    "firstflight-core",
    "firstflight-records",
    "firstflight-usage",
    "firstflight-wire",
    "mimalloc",
    "proptest",
    "quinn-proto",
    "rand_chacha",
    "rcgen",
    "rustls",
    "rustls-pki-types",
    "rustls-webpki",
    "serde",
    "serde_json",
    "sha2",
    "siphasher",
    "webpki-roots",
    "x509-parser",
];

/// Names that hand bytes to the kernel's network, or make that possible.
const WAYS_OUT: [&str; 12] = [
    "UdpSocket",
    "TcpStream",
    "TcpListener",
    "UnixDatagram",
    "UnixStream",
    "process::Command",
    "os::fd",
    "libc::",
    "sendmmsg",
    "sendto",
    "send_to",
    "unsafe ",
];

/// Files of the core that send, and the calls: queries to the kernel (netlink), questions over TCP, connections
/// of engines, a byte from a socket to itself, datagrams of engines.
const SENDING: [(&str, &str); 6] = [
    ("limits/policy/rtnetlink.rs", "libc::send("),
    ("sockets/connected/tcp.rs", "net::connect("),
    ("sockets/connected/tcp.rs", "stream.write("),
    ("sockets/connects/socket.rs", "net::connect("),
    ("sockets/egress/socket.rs", "send_to("),
    ("sockets/messages/batch.rs", "libc::sendmmsg("),
];

/// Callers of these functions. Each checks the policy right before the call.
const ASKING: [(&str, &str); 4] = [
    ("sockets/connected.rs", "Tcp::connect("),
    ("sockets/connected.rs", "batch.send("),
    ("sockets/connects.rs", "Connecting::open("),
    ("sockets/egress.rs", "batch.send("),
];

fn native() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn engines() -> Vec<PathBuf> {
    let folders = fs::read_dir(native()).unwrap();
    folders
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").exists() && !path.ends_with("core"))
        .collect()
}

/// Returns the Rust files below `folder`, with their text without line comments.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
            let text: Vec<String> = text.lines().map(code).collect();
            found.push((path, text.join("\n")));
        }
    }
    found
}

/// Returns the names in the dependency sections in a Cargo.toml.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.contains("dependencies");
        } else if let Some((name, _)) = line.split_once('=').filter(|_| inside) {
            names.push(name.split('.').next().unwrap().trim().to_owned());
        }
    }
    names
}

#[test]
fn engines_send_by_the_core_alone() {
    assert!(!engines().is_empty());
    for engine in engines() {
        let manifest = fs::read_to_string(engine.join("Cargo.toml")).unwrap();
        for name in dependencies(&manifest) {
            assert!(
                DEPENDENCIES.contains(&name.as_str()),
                "{}: {name} is not among the crates that cannot send; see this test",
                engine.display()
            );
        }
        let sources = sources(&engine.join("src"));
        let roots: Vec<&String> = ["main.rs", "lib.rs"]
            .iter()
            .filter_map(|name| {
                sources
                    .iter()
                    .find(|(path, _)| *path == engine.join("src").join(name))
            })
            .map(|(_, text)| text)
            .collect();
        assert!(
            !roots.is_empty()
                && roots
                    .iter()
                    .all(|text| text.contains("#![forbid(unsafe_code)]")),
            "{}: without unsafe code there is no way past the core",
            engine.display()
        );
        for (path, text) in sources {
            for way in WAYS_OUT {
                assert!(!text.contains(way), "{}: {way}", path.display());
            }
        }
    }
}

/// Returns which files of the core contain which of `calls`, outside of tests.
fn calls_in_core(calls: &[&str]) -> Vec<(String, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for (path, text) in sources(&source) {
        // Tests may send directly. They are at the end of a file or in a separate file.
        let text = text.split("#[cfg(test)]").next().unwrap();
        let name = path.strip_prefix(&source).unwrap().to_str().unwrap();
        for call in calls.iter().filter(|call| text.contains(*call)) {
            if !name.ends_with("/tests.rs") {
                found.push((name.to_owned(), (*call).to_owned()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_core_has_one_way_out() {
    let found = calls_in_core(&[
        "libc::sendmmsg(",
        "libc::sendmsg(",
        "libc::sendto(",
        "libc::send(",
        "libc::write(",
        "send_to(",
        "libc::syscall(",
        "net::connect(",
        "net::send",
        "stream.write(",
    ]);
    let expected = SENDING.map(|(file, call)| (file.to_owned(), call.to_owned()));
    assert_eq!(found, expected);
    let found = calls_in_core(&["Connecting::open(", "Tcp::connect(", "batch.send("]);
    let expected = ASKING.map(|(file, call)| (file.to_owned(), call.to_owned()));
    assert_eq!(found, expected);
}
