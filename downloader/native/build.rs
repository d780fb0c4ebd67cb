//! Sets `BUILT_WITH_QUINN` and similar variables to the versions of the QUIC stacks, from the lock file in force. All
//! programs here that use a QUIC stack share this build script.

use std::path::PathBuf;

const STACKS: [&str; 5] = ["msquic", "quiche", "quinn", "s2n-quic", "tquic"];

fn main() {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let lock = package
        .ancestors()
        .map(|folder| folder.join("Cargo.lock"))
        .find(|file| file.is_file())
        .expect("cargo has written one");
    println!("cargo::rerun-if-changed={}", lock.display());
    let text = std::fs::read_to_string(&lock).expect("cargo has read it");
    for stack in STACKS {
        let found = text.split("[[package]]").find_map(|entry| {
            let mut lines = entry.trim().lines();
            let name = lines.next()?.strip_prefix("name = ")?.trim_matches('"');
            let version = lines.next()?.strip_prefix("version = ")?.trim_matches('"');
            (name == stack).then_some(version)
        });
        if let Some(version) = found {
            let name = stack.to_uppercase().replace('-', "_");
            println!("cargo::rustc-env=BUILT_WITH_{name}={version}");
        }
    }
}
