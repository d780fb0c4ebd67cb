//! Shared parts of the lab's Rust servers: their configuration, one UDP socket per address, and an event loop that
//! sends datagrams at chosen times.

#![deny(unsafe_code)]

mod buffers;
pub mod config;
pub mod launch;
pub mod release;
pub mod serve;

pub use config::{
    AnswerConfig, CertificateFiles, Config, ConfigError, Endpoint, Routes, Transport,
};
pub use release::Releases;
pub use serve::{Arrival, DATAGRAM_BYTES, Host, ServeError, Sockets, serve};

use std::path::PathBuf;
use std::process::ExitCode;

/// Runs a server program: reads `--config FILE`, creates its host with `build`, and serves until killed.
///
/// Prints one sentence and returns exit status 2 for wrong use or configuration, and 1 if the sockets fail.
pub fn run<H: Host>(
    program: &str,
    version: &str,
    build: impl FnOnce(&Config) -> Result<H, String>,
) -> ExitCode {
    let (config, host) = match prepared(program, version, build) {
        Ok(prepared) => prepared,
        Err(status) => return status,
    };
    match serve(&config, host) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("{program}: {error}.");
            ExitCode::FAILURE
        }
    }
}

/// Reads a server program's `--config FILE`, and returns the result of `build`.
///
/// The error is the exit status: 0 after `--help` and `--version`, 2 with one sentence for wrong use or
/// configuration.
pub fn prepared<P>(
    program: &str,
    version: &str,
    build: impl FnOnce(&Config) -> Result<P, String>,
) -> Result<(Config, P), ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let file = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--version"] => {
            println!("{program} {version}");
            return Err(ExitCode::SUCCESS);
        }
        ["--help" | "-h"] => {
            println!(
                "Serves the lab's QUIC endpoints that a JSON file declares (docs/reference/lab-hosts.md).\n"
            );
            println!(
                "Usage: {program} --config FILE\n\nExample: {program} --config var/lab/edges/akamai.json"
            );
            return Err(ExitCode::SUCCESS);
        }
        ["--config", file] => PathBuf::from(file),
        _ => {
            eprintln!(
                "{program}: expected --config FILE and nothing else; --help shows an example."
            );
            return Err(ExitCode::from(2));
        }
    };
    Config::read(&file)
        .map_err(|error| error.to_string())
        .and_then(|config| build(&config).map(|made| (config, made)))
        .map_err(|problem| {
            eprintln!("{program}: {}: {problem}.", file.display());
            ExitCode::from(2)
        })
}
